"""Changes of ``params.yaml``, which keep its comments, order and all other values."""

import io
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ruamel.yaml import YAML
from ruamel.yaml.comments import CommentedMap, CommentedSeq
from ruamel.yaml.representer import RoundTripRepresenter

from tuneline.core.files import read_yaml, replace_file
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
        return self.represent_scalar("tag:yaml.org,2002:float", f"{mantissa}{point}{exponent}{power.replace('-0', '-')}")


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
    """Return the text of the file with the required values in it; a ``ParamsError`` if the file or the result is not valid."""
    values = load_commented(path)
    for key, (_, value) in differing(path, required).items():
        section, _, last = key.rpartition(".")
        (get_value(values, section) if section else values)[last] = inline(value)
    text = dump_commented(values)
    parse_params(YAML(typ="safe", pure=True).load(text), path)
    return text


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
