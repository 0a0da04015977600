"""Changes ``params.yaml`` and nothing else in it: comments, order and the look of every other value stay."""

import io
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ruamel.yaml import YAML
from ruamel.yaml.comments import CommentedMap, CommentedSeq
from ruamel.yaml.representer import RoundTripRepresenter

from tuneline.files import replace_file
from tuneline.params.loading import parse_params, read_yaml

Changes = Mapping[str, Any]
"""New values by dotted key."""


class _Representer(RoundTripRepresenter):
    """Writes nothing as ``null``; the library would leave the place empty."""

    def represent_none(self, data: None) -> Any:  # noqa: ARG002 - the library's signature
        """One ``null``."""
        return self.represent_scalar("tag:yaml.org,2002:null", "null")


_Representer.add_representer(type(None), _Representer.represent_none)


def differing(path: Path, wanted: Changes) -> dict[str, tuple[Any, Any]]:
    """Of the wanted values those that the file does not have yet: dotted key, then (old, new)."""
    values = read_yaml(path)
    found = {key: _get(values, key) for key in wanted}
    return {key: (found[key], value) for key, value in wanted.items() if found[key] != value}


def changed(path: Path, wanted: Changes) -> str:
    """The text of the file with the wanted values in it.

    Raises:
        tuneline.errors.ParamsError: The file is missing or no YAML, or the outcome is not what the line takes.
    """
    read_yaml(path)  # its errors are clearer
    yaml = YAML()
    yaml.Representer = _Representer
    yaml.preserve_quotes = True
    yaml.width = 1000
    values = yaml.load(path)
    for key, (_, value) in differing(path, wanted).items():
        *sections, last = key.split(".")
        section = values
        for name in sections:
            if not isinstance(section.get(name), dict):
                section[name] = CommentedMap()
            section = section[name]
        section[last] = _inline(value)
    text = io.StringIO()
    yaml.dump(values, text)
    parse_params(YAML(typ="safe", pure=True).load(text.getvalue()), path)
    return text.getvalue()


def write(path: Path, text: str) -> None:
    """Puts the file in place, whole."""
    with replace_file(path) as partial:
        partial.write_text(text, encoding="utf-8")


def _get(values: Any, key: str) -> Any:
    for name in key.split("."):
        values = values.get(name) if isinstance(values, dict) else None
    return values


def _inline(value: Any) -> Any:
    if not isinstance(value, list):
        return value
    sequence = CommentedSeq(value)
    sequence.fa.set_flow_style()
    return sequence
