"""Changes of ``params.yaml``, which keep its comments, order and all other values."""

import io
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ruamel.yaml import YAML
from ruamel.yaml.comments import CommentedMap, CommentedSeq
from ruamel.yaml.nodes import CollectionNode, MappingNode
from ruamel.yaml.representer import RoundTripRepresenter

from tuneline.core.yaml_files import read_yaml
from tuneline.params.loading import parse_params
from tuneline.runtime.atomic_files import replace_file

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
        if "." not in mantissa:
            mantissa += ".0"
        power = power.replace("-0", "-")
        return self.represent_scalar("tag:yaml.org,2002:float", f"{mantissa}{exponent}{power}")


_Representer.add_representer(type(None), _Representer.represent_none)
_Representer.add_representer(float, _Representer.represent_float)


def _round_trip() -> YAML:
    yaml = YAML()
    yaml.Representer = _Representer
    yaml.preserve_quotes = True
    yaml.width = 1000  # no value is broken over lines
    return yaml


def load_commented(path: Path, text: str | None = None) -> CommentedMap:
    """Read a file, or the text that it had, with its comments."""
    if text is None:
        read_yaml(path)  # its errors are clearer than the errors of the library
        loaded = _round_trip().load(path)
    else:
        loaded = _round_trip().load(text)
    return loaded or CommentedMap()


def dump_commented(values: CommentedMap) -> str:
    """Return the text of a file, with its comments."""
    text = io.StringIO()
    _round_trip().dump(values, text)
    return text.getvalue()


def get_value(values: Any, key: str) -> Any:
    """Return the value of a dotted key; ``None`` if there is none."""
    for name in key.split("."):
        if not isinstance(values, dict):
            return None
        values = values.get(name)
    return values


def flat_values(values: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """Return nested values by dotted key."""
    flat: dict[str, Any] = {}
    for key, value in values.items():
        if isinstance(value, dict) and value:
            flat.update(flat_values(value, f"{prefix}{key}."))
        else:
            flat[f"{prefix}{key}"] = value
    return flat


def differing(path: Path, required: Changes) -> dict[str, tuple[Any, Any]]:
    """Return the required values that the file does not have yet: (old, new) by dotted key."""
    values = read_yaml(path)
    different = {}
    for key, value in required.items():
        current = get_value(values, key)
        if current != value:
            different[key] = (current, value)
    return different


def changed(path: Path, required: Changes) -> str:
    """Return the text of the file with the required values in it.

    Only the text of a value changes, if it is on one line; else the library lays the file out anew, with its
    comments.

    Raises:
        ParamsError: The file or the result is not valid.
    """
    sections_completed = _within_null_sections(read_yaml(path), required)
    new = {key: value for key, (_, value) in differing(path, sections_completed).items()}
    text = path.read_text(encoding="utf-8")

    positions = _positions(text)
    on_one_line = []
    to_lay_out = []
    for key in new:
        if key in positions:
            on_one_line.append(key)
        else:
            to_lay_out.append(key)

    # Values on one line: the last one first, so that the positions of the others stay valid.
    on_one_line.sort(key=lambda key: positions[key], reverse=True)
    for key in on_one_line:
        start, end = positions[key]
        text = _replaced(text, start, end, _one_line(new[key]))

    # The other values: new keys, and values on several lines.
    if to_lay_out:
        values = load_commented(path, text)
        for key in to_lay_out:
            section_key, _, name = key.rpartition(".")
            section = values
            if section_key:
                section = get_value(values, section_key)
            section[name] = inline(new[key])
        text = dump_commented(values)
    parse_params(YAML(typ="safe", pure=True).load(text), path, given=new)
    return text


def _within_null_sections(values: Any, required: Changes) -> dict[str, Any]:
    """Replace keys of a section that is null by the section with these keys.

    ``train.early_stopping.patience`` is such a key, where ``train.early_stopping`` is null.
    """
    completed: dict[str, Any] = {}
    for key, value in required.items():
        section = _null_section(values, key)
        if section is None:
            completed[key] = value
            continue
        names = key.removeprefix(f"{section}.").split(".")
        inner = completed.setdefault(section, {})
        for name in names[:-1]:
            inner = inner.setdefault(name, {})
        inner[names[-1]] = value
    return completed


def _null_section(values: Any, key: str) -> str | None:
    """Return the outermost section of a dotted key that is no mapping; ``None`` if all its sections are."""
    names = key.split(".")
    for length in range(1, len(names)):
        section = ".".join(names[:length])
        if not isinstance(get_value(values, section), dict):
            return section
    return None


def _positions(text: str) -> dict[str, tuple[int, int]]:
    """Return where the values are that are on one line, by dotted key.

    A position is the index of the first character, and the index after the last.
    """
    positions: dict[str, tuple[int, int]] = {}

    def visit(node: Any, prefix: str) -> None:
        for key, value in node.value:
            name = f"{prefix}{key.value}"
            start = value.start_mark.index
            end = value.end_mark.index
            is_block = isinstance(value, CollectionNode) and not value.flow_style
            if not is_block and end > start and "\n" not in text[start:end]:
                positions[name] = (start, end)
            if isinstance(value, MappingNode):
                visit(value, f"{name}.")

    visit(YAML(pure=True).compose(io.StringIO(text)), "")
    return positions


def _one_line(value: Any) -> str:
    values = CommentedMap({"key": inline(value)})
    return dump_commented(values).removeprefix("key: ").rstrip("\n")


def _replaced(text: str, start: int, end: int, new: str) -> str:
    """Return the text with another value; a comment behind it stays in its column, if there is room."""
    before = text[:start]
    after = text[end:]
    rest = after.lstrip(" ")
    if not rest.startswith("#"):
        return f"{before}{new}{after}"

    column = end + len(after) - len(rest)
    spaces = column - start - len(new)
    return before + new + " " * max(1, spaces) + rest  # YAML wants a space before a comment


def write(path: Path, text: str) -> None:
    """Replace the file atomically."""
    with replace_file(path) as partial:
        partial.write_text(text, encoding="utf-8")


def inline(value: Any) -> Any:
    """Return a list or mapping that is written on one line, and any other value as it is."""
    if not isinstance(value, (list, dict)):
        return value
    collection: CommentedMap | CommentedSeq
    if isinstance(value, dict):
        collection = CommentedMap(value)
    else:
        collection = CommentedSeq(value)
    collection.fa.set_flow_style()
    return collection
