"""The reference of all parameters, from the models in ``tuneline/params``, ``conf/base.yaml`` and ``dvc.yaml``."""

import json
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from tuneline.cli.explain.reruns import Reruns, StageGraph
from tuneline.cli.explain.type_words import Schema, describe_type, mapping_in, resolve
from tuneline.errors import ParamsError
from tuneline.params import Params
from tuneline.params.loading import read_yaml, suggestion

DEFAULTS = Path("conf/base.yaml")
REQUIRED = "none, required"
VARIES = "see above"
_PLAIN = re.compile(r"(?!(null|true|false)$)[A-Za-z_][\w./-]*")


@dataclass(frozen=True)
class Parameter:
    """One parameter or section.

    Attributes:
        key: Dotted key.
        type: Type in words; empty for a top-level section.
        default: Value in ``conf/base.yaml`` as YAML on one line, ``REQUIRED`` or ``VARIES``.
        meaning: Docstring of the key, with code in single backticks.
        reruns: Stages that run again after a change.
        children: Parameters of a section; empty for a single value.
        free: True for a mapping with keys of the user's choice.
    """

    key: str
    type: str
    default: str
    meaning: str
    reruns: Reruns
    children: tuple["Parameter", ...] = ()
    free: bool = False


def read_reference(root: Path = Path()) -> tuple[Parameter, ...]:
    """Return all sections, in the order of ``params.yaml``.

    Args:
        root: Root of the project.

    Raises:
        ParamsError: ``conf/base.yaml`` or ``dvc.yaml`` is missing or is not valid YAML.
    """
    schema = Params.model_json_schema()
    reader = _Reader(schema["$defs"], StageGraph.read(root / "dvc.yaml"))
    return tuple(reader.parameters(schema, read_yaml(root / DEFAULTS)))


@dataclass(frozen=True)
class _Reader:
    definitions: Mapping[str, Schema]
    graph: StageGraph

    def parameters(self, section: Schema, defaults: Any, prefix: str = "") -> Iterator[Parameter]:
        """Yield the parameters of one section.

        Args:
            section: JSON schema of the section.
            defaults: Its values in ``conf/base.yaml``; anything but a mapping if it has none there.
            prefix: What its keys begin with.
        """
        defaults = defaults if isinstance(defaults, dict) else {}
        others = section.get("additionalProperties")  # the type of data checks that have no field of their own
        properties = section["properties"] | {name: others for name in defaults if others and name not in section["properties"]}
        for name, schema in properties.items():
            yield self._parameter(f"{prefix}{name}", schema, defaults.get(name, schema.get("default", REQUIRED)))

    def _parameter(self, key: str, schema: Schema, default: Any) -> Parameter:
        mapping = mapping_in(schema, self.definitions)
        is_section = mapping is not None and "properties" in mapping
        meaning = schema.get("description") or resolve(schema, self.definitions).get("description", "")
        return Parameter(
            key=key,
            type="" if is_section and "." not in key else describe_type(schema, self.definitions),
            default=default if default is REQUIRED else flow(default),
            meaning=" ".join(meaning.split()).replace("``", "`"),
            reruns=self.graph.reruns(key),
            children=tuple(self.parameters(mapping, default, f"{key}.")) if mapping and is_section else (),
            free=mapping is not None and not is_section,
        )


def flow(value: Any) -> str:
    """Return a value as YAML on one line."""
    if isinstance(value, dict):
        return "{" + ", ".join(f"{flow(key)}: {flow(entry)}" for key, entry in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(map(flow, value)) + "]"
    return value if isinstance(value, str) and _PLAIN.fullmatch(value) else json.dumps(value, ensure_ascii=False)


def walk(parameters: Iterable[Parameter]) -> Iterator[Parameter]:
    """Yield parameters and those inside them."""
    for parameter in parameters:
        yield parameter
        yield from walk(parameter.children)


def find(reference: Iterable[Parameter], key: str) -> Parameter:
    """Return a parameter or section; for a key inside a mapping such as ``model.config``, the mapping.

    Raises:
        ParamsError: There is no such key. The message names the nearest one.
    """
    known = {parameter.key: parameter for parameter in walk(reference)}
    parents = [parameter for parameter in known.values() if parameter.free and key.startswith(f"{parameter.key}.")]
    found = known.get(key, *parents[:1])
    if found is None:
        raise ParamsError(f"{key}: unknown parameter{suggestion(key)}", "`tuneline explain` lists the sections.")
    return found


def nested(section: Parameter) -> list[Parameter]:
    """Return the parameters inside the sections of a section: those that several of them have in common only once, under ``*``.

    Their default is ``VARIES`` if it is not the same in all of them: the sections' own defaults show it.
    """
    alike: dict[tuple[str, str, str], list[Parameter]] = {}
    for child in section.children:
        for parameter in walk(child.children):
            alike.setdefault((parameter.key.removeprefix(f"{child.key}."), parameter.type, parameter.meaning), []).append(parameter)
    return [_merge(section, name, parameters) for (name, _, _), parameters in alike.items()]


def _merge(section: Parameter, name: str, parameters: list[Parameter]) -> Parameter:
    first = parameters[0]
    if len(parameters) == 1:
        return first
    defaults = {parameter.default for parameter in parameters}
    return replace(first, key=f"{section.key}.*.{name}", default=first.default if len(defaults) == 1 else VARIES)


def common_reruns(section: Parameter) -> Reruns:
    """Return the stages that most parameters of a section rerun."""
    return Counter(child.reruns for child in section.children or (section,)).most_common(1)[0][0]
