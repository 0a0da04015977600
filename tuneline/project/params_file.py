"""Changes of ``params.yaml``, which keep its comments, order and all other values."""

import io
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ruamel.yaml import YAML
from ruamel.yaml.comments import CommentedMap, CommentedSeq
from ruamel.yaml.nodes import CollectionNode, MappingNode
from ruamel.yaml.representer import RoundTripRepresenter

from tuneline.core.atomic_files import replace_file
from tuneline.core.yaml_files import read_yaml
from tuneline.params.loading import parse_params

Changes = Mapping[str, Any]
"""New values by dotted key."""


class _Representer(RoundTripRepresenter):
    """Representer that writes ``None`` as ``null``; the library would write nothing."""

    def represent_none(self, data: None) -> Any:  # noqa: ARG002 - the library's signature
        """Return a ``null``."""
        return self.represent_scalar("tag:yaml.org,2002:null", "null")

    def represent_float(self, data: float) -> Any:
        """Return a number with a point: 5e-05 would be a text in YAML 1.1, which many libraries read."""
        mantissa, exponent, power = repr(data).partition("e")
        point = "" if "." in mantissa else ".0"
        return self.represent_scalar(
            "tag:yaml.org,2002:float", f"{mantissa}{point}{exponent}{power.replace('-0', '-')}"
        )


_Representer.add_representer(type(None), _Representer.represent_none)
_Representer.add_representer(float, _Representer.represent_float)


def _round_trip() -> YAML:
    yaml = YAML()
    yaml.Representer = _Representer
    yaml.preserve_quotes = True
    yaml.width = 1000
    return yaml


def load_commented(path: Path, text: str | None = None) -> CommentedMap:
    """Read a file, or the text that it had, with its comments."""
    if text is None:
        read_yaml(path)  # its errors are clearer than those of the library
    return _round_trip().load(path if text is None else text) or CommentedMap()


def dump_commented(values: CommentedMap) -> str:
    """Return the text of a file, with its comments."""
    text = io.StringIO()
    _round_trip().dump(values, text)
    return text.getvalue()


def get_value(values: Any, key: str) -> Any:
    """Return the value of a dotted key; ``None`` if there is none."""
    for name in key.split("."):
        values = values.get(name) if isinstance(values, dict) else None
    return values


def differing(path: Path, required: Changes) -> dict[str, tuple[Any, Any]]:
    """Return the required values that the file does not have yet: (old, new) by dotted key."""
    values = read_yaml(path)
    current = {key: get_value(values, key) for key in required}
    return {key: (current[key], value) for key, value in required.items() if current[key] != value}


def changed(path: Path, required: Changes) -> str:
    """Return the text of the file with the required values in it; a ``ParamsError`` if the file or the result is not valid.

    Only the text of a value changes, if it is on one line; else the library lays the file out anew, with its
    comments.
    """
    new = {
        key: value
        for key, (_, value) in differing(path, _within_null_sections(read_yaml(path), required)).items()
    }
    text = path.read_text(encoding="utf-8")
    places = _places(text)
    in_place = {key: places[key] for key in new if key in places}
    for key, (start, end) in sorted(in_place.items(), key=lambda item: -item[1][0]):
        text = _replaced(text, start, end, _one_line(new[key]))
    if others := {key: value for key, value in new.items() if key not in in_place}:
        values = load_commented(path, text)
        for key, value in others.items():
            section, _, last = key.rpartition(".")
            (get_value(values, section) if section else values)[last] = inline(value)
        text = dump_commented(values)
    parse_params(YAML(typ="safe", pure=True).load(text), path, given=new)
    return text


def _within_null_sections(values: Any, required: Changes) -> dict[str, Any]:
    """Replace keys of a section that is null, such as ``train.early_stopping.patience``, by the section with these keys."""
    grown: dict[str, Any] = {}
    for key, value in required.items():
        parts = key.split(".")
        prefixes = (".".join(parts[:length]) for length in range(1, len(parts)))
        section = next(
            (prefix for prefix in prefixes if not isinstance(get_value(values, prefix), dict)), None
        )
        if section is None:
            grown[key] = value
        else:
            inner = grown.setdefault(section, {})
            for name in parts[len(section.split(".")) : -1]:
                inner = inner.setdefault(name, {})
            inner[parts[-1]] = value
    return grown


def _places(text: str) -> dict[str, tuple[int, int]]:
    """Return where the values are that are on one line, by dotted key: first character, and the one after the last."""
    found: dict[str, tuple[int, int]] = {}

    def visit(node: Any, prefix: str) -> None:
        for key, value in node.value:
            name, start, end = f"{prefix}{key.value}", value.start_mark.index, value.end_mark.index
            is_block = isinstance(value, CollectionNode) and not value.flow_style
            if not is_block and end > start and "\n" not in text[start:end]:
                found[name] = start, end
            if isinstance(value, MappingNode):
                visit(value, f"{name}.")

    visit(YAML(pure=True).compose(io.StringIO(text)), "")
    return found


def _one_line(value: Any) -> str:
    values = CommentedMap({"key": inline(value)})
    return dump_commented(values).removeprefix("key: ").rstrip("\n")


def _replaced(text: str, start: int, end: int, new: str) -> str:
    """Return the text with another value; a comment behind it stays in its column, if there is room."""
    spaces = len(text) - end - len(text[end:].lstrip(" "))
    if text[end + spaces : end + spaces + 1] == "#":
        return f"{text[:start]}{new}{' ' * max(1, spaces - len(new) + end - start)}{text[end + spaces :]}"
    return f"{text[:start]}{new}{text[end:]}"


def write(path: Path, text: str) -> None:
    """Replace the file atomically."""
    with replace_file(path) as partial:
        partial.write_text(text, encoding="utf-8")


def inline(value: Any) -> Any:
    """Return a list or mapping that is written on one line, and any other value as it is."""
    if not isinstance(value, (list, dict)):
        return value
    collection = CommentedMap(value) if isinstance(value, dict) else CommentedSeq(value)
    collection.fa.set_flow_style()
    return collection
