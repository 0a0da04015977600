"""Reader of ``params.yaml``. Its errors name the dotted key or the line, and the nearest known key."""

import difflib
from collections.abc import Iterator
from pathlib import Path
from typing import Any, get_args

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails
from ruamel.yaml import YAML
from ruamel.yaml.error import MarkedYAMLError, YAMLError

from tuneline.errors import ParamsError
from tuneline.params import Params
from tuneline.params.functions import check_functions
from tuneline.paths import PARAMS, PIPELINE


def load_params(path: Path = PARAMS) -> Params:
    """Read and check a parameter file.

    Raises:
        ParamsError: The file is missing, is not valid YAML, or contains invalid values. The message lists all of them, each with
            its dotted key. Or it names a function in ``project/`` that does not exist.
    """
    params = parse_params(read_yaml(path), path)
    pipeline = path.with_name(PIPELINE.name)
    check_functions(params.functions, path.parent, read_yaml(pipeline) if params.functions and pipeline.exists() else None)
    return params


def read_yaml(path: Path) -> Any:
    """Read YAML 1.2, as DVC does (``2e-5`` is a number).

    Raises:
        ParamsError: The file is missing or is not valid YAML.
    """
    try:
        return YAML(typ="safe", pure=True).load(path)
    except FileNotFoundError:
        raise ParamsError(f"{path} is missing.", "Run this in the root of the project.") from None
    except MarkedYAMLError as error:
        line = error.problem_mark.line + 1 if error.problem_mark else "?"
        raise ParamsError(f"{path}, line {line}: invalid YAML: {error.problem}.", "Correct that line.") from None
    except (YAMLError, ValueError) as error:  # ValueError: not UTF-8, or a date without quotes that no calendar has
        raise ParamsError(f"{path}: invalid YAML: {error}") from None


def parse_params(values: Any, path: Path = PARAMS) -> Params:
    """Check the contents of a parameter file.

    Args:
        values: Contents of the file: a mapping of sections.
        path: The file, used in messages only.

    Raises:
        ParamsError: A value is invalid.
    """
    if not isinstance(values, dict):
        raise ParamsError(f"{path}: expected a mapping of sections (seed, data, tokenize, ...), not {type(values).__name__}.")
    try:
        return Params.model_validate(values)
    except ValidationError as error:
        problems = [describe(problem) for problem in error.errors()]
        raise ParamsError("\n  ".join([f"{path} has {len(problems)} error{'s' * (len(problems) > 1)}:", *problems])) from None


def describe(problem: ErrorDetails) -> str:
    """Describe one error in one line: the dotted key, what is wrong, and for an unknown key the nearest known one."""
    key = ".".join(str(part) for part in problem["loc"])
    if problem["type"] == "extra_forbidden":
        return f"{key}: unknown key{suggestion(key)}"
    if problem["type"] == "missing":
        return f"{key}: missing; copy it from conf/base.yaml"
    message = problem["msg"].removeprefix("Value error, ")
    if problem["type"] == "value_error":  # validators of a section name the key themselves, relative to the section
        return f"{key}.{message}" if key else message
    return f"{key}: {message[0].lower()}{message[1:]}, not {problem['input']!r}"


def suggestion(key: str) -> str:
    """Return the end of a message about an unknown key: the nearest known key, or all keys of its section.

    Searches the same section first, then all sections: a key may be in the wrong one.
    """
    section, _, name = key.rpartition(".")
    keys = list(known_keys(optional=True))
    siblings = [key for key in keys if key.rpartition(".")[0] == section]
    if not siblings:  # the section is misspelled, too
        close = difflib.get_close_matches(key, keys, n=1, cutoff=0.6)
        return f"; did you mean {close[0]}?" if close else f"; known sections are {', '.join(key for key in keys if '.' not in key)}"
    for candidates in (siblings, keys):
        names = {key.rpartition(".")[2]: key for key in candidates}
        if close := difflib.get_close_matches(name, list(names), n=1, cutoff=0.6):
            return f"; did you mean {names[close[0]]}?"
    return f"; known keys are {', '.join(key.rpartition('.')[2] for key in siblings)}"


def known_keys(section: type[BaseModel] = Params, prefix: str = "", optional: bool = False) -> Iterator[str]:
    """Yield all dotted keys, of sections and of their parameters, in the order of the file.

    Args:
        section: The section to start from.
        prefix: What its keys begin with.
        optional: Include the keys of sections that may be null.
    """
    for name, field in section.model_fields.items():
        key = f"{prefix}{field.alias or name}"
        yield key
        for type_ in (field.annotation, *(get_args(field.annotation) if optional else ())):
            if isinstance(type_, type) and issubclass(type_, BaseModel):
                yield from known_keys(type_, f"{key}.", optional)
