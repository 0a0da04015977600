"""``tuneline explain``: the meaning, type, default and value of a parameter, and the stages that a change of it reruns.

The value is from ``params.yaml``, the stages are from ``dvc.yaml``, all else is from the fields in
``tuneline/params/``.
"""

import json
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from textwrap import fill
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tuneline.core.errors import ParamsError
from tuneline.core.paths import PARAMS, PIPELINE
from tuneline.core.yaml_files import read_yaml
from tuneline.params import Params
from tuneline.params.loading import default_values, suggestion

if TYPE_CHECKING:
    from tuneline.cli.console import Console

MARKERS = frozenset({"reports/checks/passed"})
"""Outs that only say that a stage passed.

Their content never changes, so what depends on nothing else of that stage is not rerun.
"""


def reruns(key: str, stages: Mapping[str, Any]) -> str:
    """Return the stages of ``dvc.yaml`` that run again after a change of a parameter, or of any parameter of a section.

    They are its readers, and those after them if one of their inputs has changed.
    """
    readers = [
        name
        for name, stage in stages.items()
        if any(_contains(key, entry, ".") for entry in _names(stage, "params"))
    ]
    reached = set(readers)
    while following := {
        name
        for name in stages
        if name not in reached and any(_feeds(stages[one], stages[name]) for one in reached)
    }:
        reached |= following
    followers = [name for name in stages if name in reached and name not in readers]
    words = ", ".join(readers) or "no stage"
    whose = "their" if len(followers) > 1 else "its"
    return f"{words}; then {', '.join(followers)} if {whose} inputs change" if followers else words


def _feeds(stage: Mapping[str, Any], other: Mapping[str, Any]) -> bool:
    deps = [dep for dep in _names(other, "deps") if dep not in MARKERS]
    return any(_contains(out, dep, "/") for out in _names(stage, "outs", "metrics", "plots") for dep in deps)


def _names(stage: Mapping[str, Any], *kinds: str) -> list[str]:
    """Return the names in lists of a stage, whose entries are a name or a name with options."""
    return [
        next(iter(entry)) if isinstance(entry, dict) else entry
        for kind in kinds
        for entry in stage.get(kind, [])
    ]


def _contains(one: str, other: str, separator: str) -> bool:
    """Return True if two keys or paths are equal, or if one is inside the other."""
    return one == other or one.startswith(f"{other}{separator}") or other.startswith(f"{one}{separator}")


Schema = Mapping[str, Any]
_NAMES = {
    "string": "text",
    "boolean": "true | false",
    "null": "null",
    "integer": "integer",
    "number": "number",
}


def resolve_schema(schema: Schema, definitions: Mapping[str, Schema]) -> Schema:
    """Return the definition that a schema refers to; the schema itself if it refers to none."""
    return definitions[schema["$ref"].rpartition("/")[2]] if "$ref" in schema else schema


def mapping_in(schema: Schema, definitions: Mapping[str, Schema]) -> Schema | None:
    """Return the mapping that a key accepts, perhaps among other types; ``None`` if it accepts none.

    A section has ``properties``.
    """
    options = (resolve_schema(option, definitions) for option in schema.get("anyOf", [schema]))
    return next((option for option in options if option.get("type") == "object"), None)


def describe_type(schema: Schema, definitions: Mapping[str, Schema]) -> str:
    """Return the type in a JSON schema in words, for example ``integer >= 1, or null``; ``definitions`` has the sections by name."""
    schema = resolve_schema(schema, definitions)
    if "anyOf" in schema:
        return ", or ".join(describe_type(option, definitions) for option in schema["anyOf"])
    if "enum" in schema or "const" in schema:
        return " | ".join(map(str, schema.get("enum", [schema.get("const")])))
    match schema.get("type"):
        case "object" if "properties" in schema:
            return "section"
        case "object":
            values = schema.get("additionalProperties")
            return (
                f"mapping of names to {describe_type(values, definitions)}"
                if isinstance(values, dict)
                else "mapping"
            )
        case "array":
            return f"list of {_length(schema)}{describe_type(schema['items'], definitions)}"
        case type_:
            return _NAMES[str(type_)] + _bounds(schema)


def _length(schema: Schema) -> str:
    least, most = schema.get("minItems"), schema.get("maxItems")
    if most is None:
        return f"at least {least}: " if least else ""
    return f"{most}: " if least == most else f"{least or 0} to {most}: "


def _bounds(schema: Schema) -> str:
    if "pattern" in schema:
        return f" that matches {schema['pattern']}"
    if "minimum" in schema and "maximum" in schema:
        return f" from {schema['minimum']} to {schema['maximum']}"
    signs = {"minimum": ">=", "exclusiveMinimum": ">", "maximum": "<=", "exclusiveMaximum": "<"}
    bounds = [f"{sign} {schema[name]}" for name, sign in signs.items() if name in schema]
    return f" {' and '.join(bounds)}" if bounds else ""


REQUIRED = "none, required"
VARIES = "see above"
_PLAIN = re.compile(r"(?!(null|true|false)$)[A-Za-z_][\w./-]*")


@dataclass(frozen=True)
class Parameter:
    """One parameter or section.

    Attributes:
        type: Type in words; empty for a top-level section.
        default: Value as YAML on one line, ``REQUIRED`` or ``VARIES``.
        meaning: Docstring of the key, with code in single backticks.
        reruns: Stages that a change reruns, in words.
        children: Parameters of a section; empty for a single value.
        free: True for a mapping with keys of the user's choice.
        value: Value in ``params.yaml`` as YAML on one line; empty if it has none.
    """

    key: str
    type: str
    default: str
    meaning: str
    reruns: str
    children: tuple["Parameter", ...] = ()
    free: bool = False
    value: str = ""


def read_reference(root: Path = Path()) -> tuple[Parameter, ...]:
    """Return all sections, in the order of ``params.yaml``, with the values in it; without values if it cannot be read."""
    schema, values = Params.model_json_schema(), None
    stages = (read_yaml(root / PIPELINE) or {}).get("stages") or {}
    with suppress(ParamsError):
        values = read_yaml(root / PARAMS)
    return tuple(_parameters(schema, (default_values(), values), "", schema["$defs"], stages))


def _parameters(
    section: Schema,
    known: tuple[Any, Any],
    prefix: str,
    definitions: Mapping[str, Schema],
    stages: Mapping[str, Any],
) -> Iterator[Parameter]:
    """Yield the parameters of one section; ``known`` are its defaults and values, which are no mappings where the section is ``null``."""
    defaults, values = (one if isinstance(one, dict) else {} for one in known)
    for name, schema in section["properties"].items():
        key, mapping = f"{prefix}{name}", mapping_in(schema, definitions)
        default = defaults.get(name, schema.get("default", REQUIRED))
        is_section = mapping is not None and "properties" in mapping
        meaning = schema.get("description") or resolve_schema(schema, definitions).get("description", "")
        inner = (default, values.get(name))
        children = (
            tuple(_parameters(mapping, inner, f"{key}.", definitions, stages))
            if mapping and is_section
            else ()
        )
        yield Parameter(
            key=key,
            type="" if is_section and not prefix else describe_type(schema, definitions),
            default=default if default is REQUIRED else flow(default),
            meaning=" ".join(meaning.split()).replace("``", "`"),
            reruns=reruns(key, stages),
            children=children,
            free=mapping is not None and not is_section,
            value=flow(values[name]) if name in values else "",
        )


def flow(value: Any) -> str:
    """Return a value as YAML on one line."""
    if isinstance(value, dict):
        return "{" + ", ".join(f"{flow(key)}: {flow(entry)}" for key, entry in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(map(flow, value)) + "]"
    return (
        value if isinstance(value, str) and _PLAIN.fullmatch(value) else json.dumps(value, ensure_ascii=False)
    )


def walk(parameters: Iterable[Parameter]) -> Iterator[Parameter]:
    """Yield parameters and those inside them."""
    for parameter in parameters:
        yield parameter
        yield from walk(parameter.children)


def find_parameter(reference: Iterable[Parameter], key: str) -> Parameter:
    """Return a parameter or section; for a key inside a mapping such as ``model.config``, the mapping.

    Refuse an unknown key.
    """
    known = {parameter.key: parameter for parameter in walk(reference)}
    parents = [
        parameter for parameter in known.values() if parameter.free and key.startswith(f"{parameter.key}.")
    ]
    found = known.get(key, *parents[:1])
    if found is None:
        raise ParamsError(
            f"{key}: unknown parameter{suggestion(key)}", "`tuneline explain` lists the sections."
        )
    return found


def nested(section: Parameter) -> list[Parameter]:
    """Return the parameters inside the sections of a section: those that several of them have in common only once, under ``*``.

    Their default or value is ``VARIES`` if it is not the same in all of them: those of the sections show it.
    """
    alike: dict[tuple[str, str, str], list[Parameter]] = {}
    for child in section.children:
        for parameter in walk(child.children):
            alike.setdefault(
                (parameter.key.removeprefix(f"{child.key}."), parameter.type, parameter.meaning), []
            ).append(parameter)
    merged = []
    for (name, *_), (first, *others) in alike.items():
        default = first.default if all(other.default == first.default for other in others) else VARIES
        value = first.value if all(other.value == first.value for other in others) else VARIES
        merged.append(
            replace(first, key=f"{section.key}.*.{name}", default=default, value=value) if others else first
        )
    return merged


Key = Annotated[
    str | None,
    typer.Argument(help="A parameter or a section: train.warmup_ratio, train. All sections unless given"),
]
All = Annotated[bool, typer.Option("--all", help="Explain all parameters")]


def command(key: Key = None, everything: All = False) -> None:
    """Explain a parameter of params.yaml: its meaning, type, default and value, and which stages a change of it reruns."""
    from tuneline.cli.console import Console

    reference = read_reference()
    console = Console(highlight=False)
    if key is not None:
        print_parameter(console, find_parameter(reference, key))
        return
    for section in reference:
        if everything:
            print_parameter(console, section)
            console.print()
        else:
            _print_wrapped(console, f"{section.key:<10}{section.meaning}", " " * 10, bold=len(section.key))
    if not everything:
        console.print("\ntuneline explain train               all parameters of a section")
        console.print("tuneline explain train.warmup_ratio  one parameter")


def print_parameter(console: "Console", parameter: Parameter) -> None:
    """Print one parameter; for a section, also all parameters in it, with the stages that they rerun where those are not the usual ones."""
    usual = Counter(child.reruns for child in parameter.children or (parameter,)).most_common(1)[0][0]
    _print_entry(console, parameter, usual)
    for child in (*parameter.children, *nested(parameter)):
        console.print()
        _print_entry(console, child, None if child.reruns == usual else child.reruns)


def _print_entry(console: "Console", parameter: Parameter, reruns: str | None) -> None:
    _print_wrapped(console, parameter.key, "", bold=len(parameter.key))
    _print_wrapped(console, f"    {parameter.meaning}", "    ")
    if parameter.type:
        value = f". Value: {parameter.value}" if parameter.value else ""
        _print_wrapped(console, f"    Type: {parameter.type}. Default: {parameter.default}{value}", "    ")
    if reruns is not None:
        _print_wrapped(console, f"    A change reruns {reruns}", "    ")


def _print_wrapped(console: "Console", line: str, indent: str, bold: int = 0) -> None:
    """Print a line that is wrapped at word boundaries, its first ``bold`` characters in bold, without trailing spaces."""
    from rich.text import Text

    text = Text(fill(line, min(console.width, 100), subsequent_indent=indent, break_on_hyphens=False))
    text.stylize("bold", 0, bold)
    console.print(text, soft_wrap=True)
