"""Changes of ``params.yaml``, which keep its comments, order and all other values."""

import io
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ruamel.yaml import YAML
from ruamel.yaml.comments import CommentedMap, CommentedSeq
from ruamel.yaml.representer import RoundTripRepresenter
from ruamel.yaml.scalarstring import DoubleQuotedScalarString

from tuneline.core.params.loading import parse_params, read_yaml
from tuneline.core.runtime.files import replace_file

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
    """Return the text of the file with the required values in it, and with its comments and layout.

    Raises:
        ParamsError: The file or the result is not valid.
    """
    new = {key: value for key, (_, value) in differing(path, required).items()}
    yaml = _round_trip()
    values = yaml.load(path)
    for key, value in new.items():
        *sections, name = key.split(".")
        section = values
        for inner in sections:
            section = section[inner]
        section[name] = _inline(value)
    text = io.StringIO()
    yaml.dump(values, text)
    parse_params(YAML(typ="safe", pure=True).load(text.getvalue()), path)
    return text.getvalue()


def write(path: Path, text: str) -> None:
    """Replace the file atomically."""
    with replace_file(path) as partial:
        partial.write_text(text, encoding="utf-8")


def _inline(value: Any) -> Any:
    """Return a list or mapping that is written on one line, and any other value as it is."""
    if not isinstance(value, (list, dict)):
        return value
    collection: CommentedMap | CommentedSeq
    if isinstance(value, dict):
        collection = CommentedMap({_quoted(key): entry for key, entry in value.items()})
    else:
        collection = CommentedSeq([_quoted(entry) for entry in value])
    collection.fa.set_flow_style()
    return collection


def _quoted(value: Any) -> Any:
    """Return a text with a colon in it so that it is written in quotes, which DVC's parser requires."""
    if isinstance(value, str) and ":" in value:
        return DoubleQuotedScalarString(value)
    return value
