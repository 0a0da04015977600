"""Reads ``params.yaml`` and says what is wrong with it in its own terms: the dotted key, the line, the nearest known key."""

import difflib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails
from ruamel.yaml import YAML
from ruamel.yaml.error import MarkedYAMLError, YAMLError

from tuneline.errors import ParamsError
from tuneline.params import Params
from tuneline.paths import PARAMS


def load_params(path: Path = PARAMS) -> Params:
    """Reads and checks a file of parameters.

    Raises:
        ParamsError: The file is missing, is no YAML, or a value in it is not what its key takes. All faults are named
            at once, each with its dotted key.
    """
    return parse_params(read_yaml(path), path)


def read_yaml(path: Path) -> Any:
    """Reads YAML 1.2, as DVC does (``2e-5`` is a number).

    Raises:
        ParamsError: The file is missing or no YAML.
    """
    try:
        return YAML(typ="safe", pure=True).load(path)
    except FileNotFoundError:
        raise ParamsError(f"{path} is missing.", "Run this in the root of the project.") from None
    except MarkedYAMLError as error:
        line = error.problem_mark.line + 1 if error.problem_mark else "?"
        raise ParamsError(f"{path}, line {line}: no YAML: {error.problem}.", "Mend that line.") from None
    except (YAMLError, UnicodeDecodeError) as error:
        raise ParamsError(f"{path}: no YAML: {error}") from None


def parse_params(values: Any, path: Path = PARAMS) -> Params:
    """Checks values as they stand in a file of parameters.

    Args:
        values: What the file holds: a mapping of sections.
        path: The file, for messages only.

    Raises:
        ParamsError: Some value is not what its key takes.
    """
    if not isinstance(values, dict):
        raise ParamsError(f"{path}: a mapping of sections is wanted (seed, data, tokenize, ...), not {type(values).__name__}.")
    try:
        return Params.model_validate(values)
    except ValidationError as error:
        faults = [describe(fault) for fault in error.errors()]
        raise ParamsError("\n  ".join([f"{path} has {len(faults)} fault{'s' * (len(faults) > 1)}:", *faults])) from None


def describe(fault: ErrorDetails) -> str:
    """One fault in one line: dotted key, what is wrong, and the nearest known key where the key is unknown."""
    place = ".".join(str(part) for part in fault["loc"])
    if fault["type"] == "extra_forbidden":
        return f"{place}: unknown key{_nearest(place)}"
    if fault["type"] == "missing":
        return f"{place}: missing"
    message = fault["msg"].removeprefix("Value error, ")
    if fault["type"] == "value_error":  # a rule of a section names the key itself, relative to the section
        return f"{place}.{message}" if place else message
    return f"{place}: {message[0].lower()}{message[1:]}, not {fault['input']!r}"


def _nearest(place: str) -> str:
    """Looks beside the key first, then at the names of all sections (a key may stand in the wrong one)."""
    parent, _, name = place.rpartition(".")
    keys = list(known_keys())
    beside = [key for key in keys if key.rpartition(".")[0] == parent]
    for candidates in (beside, keys):
        names = {key.rpartition(".")[2]: key for key in candidates}
        if close := difflib.get_close_matches(name, list(names), n=1, cutoff=0.6):
            return f"; did you mean {names[close[0]]}?"
    return f"; known here: {', '.join(key.rpartition('.')[2] for key in beside)}"


def known_keys(section: type[BaseModel] = Params, prefix: str = "") -> Iterator[str]:
    """Every dotted key of the parameters: sections and what is in them, in the order of the file."""
    for name, field in section.model_fields.items():
        key = f"{prefix}{field.alias or name}"
        yield key
        if isinstance(field.annotation, type) and issubclass(field.annotation, BaseModel):
            yield from known_keys(field.annotation, f"{key}.")
