"""``tuneline explain``: meaning, type, default and value of a parameter or of a setting of the flows.

The values are from ``params.yaml`` and ``conf/flows.yaml``, the stages that a change reruns are from
``dvc.yaml``, all else is from the fields in ``tuneline/params/`` and ``tuneline/settings.py``.
"""

import json
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from textwrap import fill
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tuneline.core.yaml_files import read_yaml
from tuneline.params import Params
from tuneline.params.loading import default_values, matches_key, suggestion
from tuneline.paths import PARAMS, PIPELINE
from tuneline.runtime.errors import ParamsError
from tuneline.settings import Settings, read_settings

if TYPE_CHECKING:
    from tuneline.cli.console import Console

MARKERS = frozenset({"reports/checks/passed"})
"""Outs that only say that a stage passed.

Their content never changes, so what depends on nothing else of that stage is not rerun.
"""
FLOWS = "flows"
"""First part of the keys under which the settings of ``conf/flows.yaml`` are explained."""


def reruns(key: str, stages: Mapping[str, Any]) -> str:
    """Return the stages of ``dvc.yaml`` that run again after a change of a parameter or section, in words.

    They are its readers, and those after them if one of their inputs has changed.
    """
    readers = []
    for name, stage in stages.items():
        if any(_contains(key, entry, ".") for entry in _names(stage, "params")):
            readers.append(name)
    if not readers:
        return "no stage"

    followers = _followers(readers, stages)
    words = ", ".join(readers)
    if not followers:
        return words
    whose = "their" if len(followers) > 1 else "its"
    return f"{words}; then {', '.join(followers)} if {whose} inputs change"


def _followers(readers: Sequence[str], stages: Mapping[str, Any]) -> list[str]:
    """Return the stages that get outs of the readers, or of other followers, in the order of ``dvc.yaml``."""
    reached = set(readers)
    waiting = list(readers)
    while waiting:
        stage = stages[waiting.pop()]
        for name in stages:
            if name not in reached and _feeds(stage, stages[name]):
                reached.add(name)
                waiting.append(name)
    return [name for name in stages if name in reached and name not in readers]


def _feeds(stage: Mapping[str, Any], following: Mapping[str, Any]) -> bool:
    """Return True if a stage writes what another one depends on."""
    outs = _names(stage, "outs", "metrics", "plots")
    deps = [dep for dep in _names(following, "deps") if dep not in MARKERS]
    return any(_contains(out, dep, "/") for out in outs for dep in deps)


def _names(stage: Mapping[str, Any], *kinds: str) -> list[str]:
    """Return the names in lists of a stage, whose entries are a name or a name with options."""
    names = []
    for kind in kinds:
        for entry in stage.get(kind, []):
            name = next(iter(entry)) if isinstance(entry, dict) else entry
            names.append(name)
    return names


def _contains(first: str, second: str, separator: str) -> bool:
    """Return True if two keys or paths are equal, or if one is inside the other."""
    return (
        first == second
        or first.startswith(f"{second}{separator}")
        or second.startswith(f"{first}{separator}")
    )


Schema = Mapping[str, Any]
"""A JSON schema, as pydantic writes it."""
_NAMES = {
    "string": "text",
    "boolean": "true | false",
    "null": "null",
    "integer": "integer",
    "number": "number",
}


def resolve_schema(schema: Schema, definitions: Mapping[str, Schema]) -> Schema:
    """Return the definition that a schema refers to; the schema itself if it refers to none."""
    if "$ref" not in schema:
        return schema
    return definitions[schema["$ref"].rpartition("/")[2]]


def mapping_in(schema: Schema, definitions: Mapping[str, Schema]) -> Schema | None:
    """Return the mapping that a key accepts, perhaps among other types; ``None`` if it accepts none.

    A section has ``properties``.
    """
    for option in schema.get("anyOf", [schema]):
        resolved = resolve_schema(option, definitions)
        if resolved.get("type") == "object":
            return resolved
    return None


def entry_section(schema: Schema, definitions: Mapping[str, Schema]) -> Schema | None:
    """Return the section that each entry of a list or mapping is; ``None`` if the entries are none."""
    entry = schema.get("items") or schema.get("additionalProperties")
    if not isinstance(entry, dict):
        return None
    resolved = resolve_schema(entry, definitions)
    return resolved if "properties" in resolved else None


def describe_type(schema: Schema, definitions: Mapping[str, Schema]) -> str:
    """Return the type in a JSON schema in words, for example ``integer >= 1, or null``.

    Args:
        schema: The schema of a key.
        definitions: The sections by name.
    """
    schema = resolve_schema(schema, definitions)
    if "anyOf" in schema:
        return ", or ".join(describe_type(option, definitions) for option in schema["anyOf"])
    if "enum" in schema or "const" in schema:
        values = schema.get("enum", [schema.get("const")])
        return " | ".join(map(str, values))

    match schema.get("type"):
        case "object" if "properties" in schema:
            return "section"
        case "object":
            entry = schema.get("additionalProperties")
            entries = f" of names to {describe_type(entry, definitions)}" if isinstance(entry, dict) else ""
            return f"mapping{entries}"
        case "array":
            return f"list of {_length(schema)}{describe_type(schema['items'], definitions)}"
        case type_:
            return _NAMES[str(type_)] + _bounds(schema)


def _length(schema: Schema) -> str:
    smallest = schema.get("minItems")
    largest = schema.get("maxItems")
    if largest is None:
        return f"at least {smallest}: " if smallest else ""
    if smallest == largest:
        return f"{largest}: "
    return f"{smallest or 0} to {largest}: "


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
    """One parameter, setting or section.

    Attributes:
        type: Type in words; empty for a top-level section, and for an entry of a list or mapping.
        default: Value as YAML on one line, ``REQUIRED`` or ``VARIES``.
        meaning: Docstring of the key, with code in single backticks.
        reruns: Stages that a change reruns, in words; empty for a setting of the flows.
        children: Parameters of a section; empty for a single value. A list or mapping of sections has one
            child, with the key ``*``.
        free: True for a mapping with keys of the user's choice.
        value: Value in the file as YAML on one line; empty if it has none.
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
    """Return the sections of ``params.yaml`` in its order, and at last the settings of the flows.

    If a file cannot be read, its parameters are without values.
    """
    stages = (read_yaml(root / PIPELINE) or {}).get("stages") or {}
    values = None
    with suppress(ParamsError):
        values = read_yaml(root / PARAMS)
    params = _Reader(Params.model_json_schema(), "", stages)

    settings_defaults = default_values(Settings)
    settings_values = None
    with suppress(ParamsError):
        settings_values = _with_defaults(read_settings(root), settings_defaults)
    settings = _Reader(Settings.model_json_schema(), f"{FLOWS}.", None)
    flows = Parameter(
        key=FLOWS,
        type="",
        default="",
        meaning=_plain_text(settings.schema["description"]),
        reruns="",
        children=settings.parameters(settings_defaults, settings_values),
    )
    return (*params.parameters(default_values(), values), flows)


def _with_defaults(values: Any, defaults: Mapping[str, Any]) -> dict[str, Any]:
    """Return the values of a file, with the defaults of the keys that it lacks."""
    if not isinstance(values, dict):
        values = {}
    completed = {**defaults, **values}
    for key, default in defaults.items():
        if default and isinstance(default, dict):
            completed[key] = _with_defaults(values.get(key), default)
    return completed


@dataclass(frozen=True)
class _Reader:
    """Reads the parameters of a file from its JSON schema.

    Attributes:
        prefix: What the keys of the file begin with.
        stages: Stages of ``dvc.yaml``; ``None`` if none depends on the file.
    """

    schema: Schema
    prefix: str
    stages: Mapping[str, Any] | None

    def parameters(self, defaults: Any, values: Any) -> tuple[Parameter, ...]:
        """Return the parameters of the whole file."""
        return self._section(self.schema, self.prefix, defaults, values)

    def _section(self, section: Schema, prefix: str, defaults: Any, values: Any) -> tuple[Parameter, ...]:
        """Return the parameters of a section; its defaults or values are no mapping where it is ``null``."""
        if not isinstance(defaults, dict):
            defaults = {}
        if not isinstance(values, dict):
            values = {}
        parameters = []
        for name, schema in section["properties"].items():
            default = defaults.get(name, schema.get("default", REQUIRED))
            value = values.get(name)
            parameter = self._parameter(schema, f"{prefix}{name}", default, value)
            if name in values:
                parameter = replace(parameter, value=flow(value))
            parameters.append(parameter)
        return tuple(parameters)

    def _parameter(self, schema: Schema, key: str, default: Any, value: Any) -> Parameter:
        """Return one parameter, still without its value; if it is a section, with what is in it."""
        definitions = self.schema["$defs"]
        mapping = mapping_in(schema, definitions)
        entry = entry_section(schema, definitions)
        is_section = mapping is not None and "properties" in mapping

        children: tuple[Parameter, ...] = ()
        if mapping is not None and is_section:
            children = self._section(mapping, f"{key}.", default, value)
        elif entry is not None:
            children = (self._entry(entry, f"{key}.*"),)

        is_top_level = key.count(".") == self.prefix.count(".")
        resolved = resolve_schema(schema, definitions)
        return Parameter(
            key=key,
            type="" if is_section and is_top_level else describe_type(schema, definitions),
            default=default if default is REQUIRED else flow(default),
            meaning=_plain_text(schema.get("description") or resolved.get("description", "")),
            reruns=self._reruns(key),
            children=children,
            free=mapping is not None and not children,
        )

    def _entry(self, section: Schema, key: str) -> Parameter:
        """Return what each entry of a list or mapping has."""
        return Parameter(
            key=key,
            type="",
            default="",
            meaning=_plain_text(section["description"]),
            reruns=self._reruns(key),
            children=self._section(section, f"{key}.", None, None),
        )

    def _reruns(self, key: str) -> str:
        return "" if self.stages is None else reruns(key, self.stages)


def _plain_text(docstring: str) -> str:
    return " ".join(docstring.split()).replace("``", "`")


def flow(value: Any) -> str:
    """Return a value as YAML on one line."""
    if isinstance(value, dict):
        entries = [f"{flow(key)}: {flow(entry)}" for key, entry in value.items()]
        return "{" + ", ".join(entries) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(map(flow, value)) + "]"
    if isinstance(value, Path):
        value = value.as_posix()
    if isinstance(value, str) and _PLAIN.fullmatch(value):
        return value
    return json.dumps(value, ensure_ascii=False)


def walk(parameters: Iterable[Parameter]) -> Iterator[Parameter]:
    """Yield parameters and those inside them."""
    for parameter in parameters:
        yield parameter
        yield from walk(parameter.children)


def find_parameter(reference: Iterable[Parameter], key: str) -> Parameter:
    """Return a parameter or section; for a key inside a mapping such as ``model.config``, the mapping.

    A key of an entry, such as ``flows.stages.train.retries``, is found as ``flows.stages.*.retries``.

    Raises:
        ParamsError: The key is unknown. The message names the nearest one.
    """
    parameters = list(walk(reference))
    for parameter in parameters:
        if matches_key(parameter.key, key):
            return parameter
    for parameter in parameters:
        if parameter.free and key.startswith(f"{parameter.key}."):
            return parameter
    nearest = suggestion(key, [parameter.key for parameter in parameters])
    raise ParamsError(f"{key}: unknown parameter{nearest}", "`tuneline explain` lists the sections.")


def nested(section: Parameter) -> list[Parameter]:
    """Return the parameters inside the sections of a section.

    Those that several sections have in common are only once among them, under ``*``. Their default or value
    is ``VARIES`` if it is not the same in all sections, each of which shows its own.
    """
    alike: dict[tuple[str, str, str], list[Parameter]] = {}
    for child in section.children:
        for parameter in walk(child.children):
            name = parameter.key.removeprefix(f"{child.key}.")
            alike.setdefault((name, parameter.type, parameter.meaning), []).append(parameter)

    merged = []
    for (name, _, _), parameters in alike.items():
        first = parameters[0]
        if len(parameters) == 1:
            merged.append(first)
            continue
        same_default = all(parameter.default == first.default for parameter in parameters)
        same_value = all(parameter.value == first.value for parameter in parameters)
        merged.append(
            replace(
                first,
                key=f"{section.key}.*.{name}",
                default=first.default if same_default else VARIES,
                value=first.value if same_value else VARIES,
            )
        )
    return merged


Key = Annotated[
    str | None,
    typer.Argument(
        help="A parameter or section, or a setting of the flows: train.warmup_ratio, train, flows.promotion."
        " All sections unless given"
    ),
]
All = Annotated[bool, typer.Option("--all", help="Explain all parameters and settings")]


def command(key: Key = None, everything: All = False) -> None:
    """Explain a parameter of params.yaml, or a setting of conf/flows.yaml.

    Prints its meaning, type, default and value, and which stages a change of a parameter reruns.
    """
    from tuneline.cli.console import Console

    reference = read_reference()
    console = Console(highlight=False)
    if key == FLOWS:
        print_sections(console, find_parameter(reference, FLOWS).children)
        console.print("\ntuneline explain flows.promotion             all settings of a section")
        console.print("tuneline explain flows.promotion.confidence  one setting")
    elif key is not None:
        print_parameter(console, find_parameter(reference, key))
    elif everything:
        *params, flows = reference
        for section in (*params, *flows.children):
            print_parameter(console, section)
            console.print()
    else:
        print_sections(console, reference)
        console.print("\ntuneline explain train               all parameters of a section")
        console.print("tuneline explain train.warmup_ratio  one parameter")
        console.print("tuneline explain flows               the sections of conf/flows.yaml")


def print_sections(console: "Console", sections: Sequence[Parameter]) -> None:
    """Print the keys of sections in a column, each with its meaning."""
    width = max(len(section.key) for section in sections) + 2
    for section in sections:
        line = f"{section.key:<{width}}{section.meaning}"
        _print_wrapped(console, line, " " * width, bold=len(section.key))


def print_parameter(console: "Console", parameter: Parameter) -> None:
    """Print one parameter; for a section, also all parameters in it.

    The stages that a change reruns are printed for a parameter in a section only if they are not those of
    most of its parameters, which are printed for the section.
    """
    counts = Counter(child.reruns for child in parameter.children or (parameter,))
    usual = counts.most_common(1)[0][0]
    _print_entry(console, parameter, usual)
    for child in (*parameter.children, *nested(parameter)):
        console.print()
        _print_entry(console, child, "" if child.reruns == usual else child.reruns)


def _print_entry(console: "Console", parameter: Parameter, reruns: str) -> None:
    _print_wrapped(console, parameter.key, "", bold=len(parameter.key))
    _print_wrapped(console, f"    {parameter.meaning}", "    ")
    if parameter.type:
        value = f". Value: {parameter.value}" if parameter.value else ""
        _print_wrapped(console, f"    Type: {parameter.type}. Default: {parameter.default}{value}", "    ")
    if reruns:
        _print_wrapped(console, f"    A change reruns {reruns}", "    ")


def _print_wrapped(console: "Console", line: str, indent: str, bold: int = 0) -> None:
    """Print a line that is wrapped at word boundaries, without trailing spaces.

    Args:
        console: Where it is printed.
        line: The text.
        indent: What each line after the first begins with.
        bold: Number of characters at the start that are bold.
    """
    from rich.text import Text

    text = Text(fill(line, min(console.width, 100), subsequent_indent=indent, break_on_hyphens=False))
    text.stylize("bold", 0, bold)
    console.print(text, soft_wrap=True)
