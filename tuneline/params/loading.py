"""Reader of ``params.yaml``. Its errors name the dotted key or the line, and the nearest known key."""

import difflib
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from typing import Any, TypeGuard, get_args

from pydantic import BaseModel, ValidationError
from pydantic.fields import FieldInfo
from pydantic_core import ErrorDetails

from tuneline.core.errors import ParamsError
from tuneline.core.paths import PARAMS, PIPELINE
from tuneline.core.terminal import say
from tuneline.core.yaml_files import read_yaml
from tuneline.params import Params
from tuneline.params.section import check_functions


def load_params(path: Path = PARAMS) -> Params:
    """Read and check a parameter file.

    Raises:
        ParamsError: The file is missing, is not valid YAML, or contains invalid values. The message lists all
            of them, each with its dotted key. Or it names a function in ``project/`` that does not exist.
    """
    params = parse_params(read_yaml(path), path)
    pipeline = path.with_name(PIPELINE.name)
    check_functions(
        params.functions, path.parent, read_yaml(pipeline) if params.functions and pipeline.exists() else None
    )
    return params


def parse_params(values: Any, path: Path = PARAMS, given: Collection[str] = ()) -> Params:
    """Check the contents of a parameter file, in which some keys are ``given`` by the user of a command: their errors are not the file's.

    A key that is missing is an error, although it has a default in code: DVC sees only what the file says, so
    a later version with another default would change results without running a stage again.

    Raises:
        ParamsError: A key is missing or unknown, or a value is invalid.
    """
    if not isinstance(values, dict):
        raise ParamsError(
            f"{path}: expected a mapping of sections (seed, data, tokenize, ...), not"
            f" {type(values).__name__}."
        )
    problems = {key: f"{key}: missing" for key in missing_keys(values)}
    try:
        params = Params.model_validate(values)
    except ValidationError as error:
        problems |= {
            ".".join(map(str, problem["loc"])): describe_problem(problem) for problem in error.errors()
        }
    if not problems:
        return params
    subject = "What was given has" if problems.keys() <= set(given) else f"{path} has"
    lines = [f"{subject} {len(problems)} error{'s' * (len(problems) > 1)}:", *problems.values()]
    hint = (
        "`tuneline upgrade` adds missing keys with their defaults, and translates the keys of an earlier"
        " version."
    )
    keys_differ = any(": missing" in line or ": unknown key" in line for line in lines)
    raise ParamsError("\n  ".join(lines), hint if keys_differ else None)


def describe_problem(problem: ErrorDetails) -> str:
    """Describe one error in one line: the dotted key, what is wrong, and for an unknown key the nearest known one."""
    key = ".".join(map(str, problem["loc"]))
    if problem["type"] == "extra_forbidden":
        return f"{key}: unknown key{suggestion(key)}"
    if problem["type"] == "missing":
        return f"{key}: missing"
    message = problem["msg"].removeprefix("Value error, ")
    if (
        problem["type"] == "value_error"
    ):  # validators of a section name the key themselves, relative to the section
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
        return (
            f"; did you mean {close[0]}?"
            if close
            else f"; known sections are {', '.join(key for key in keys if '.' not in key)}"
        )
    for candidates in (siblings, keys):
        names = {key.rpartition(".")[2]: key for key in reversed(candidates)}  # the first of equal names
        if full := next(
            (one for one in names if "_" in one and "".join(word[:1] for word in one.split("_")) == name),
            None,
        ):
            return f"; did you mean {names[full]}?"
        if close := difflib.get_close_matches(name, list(names), n=1, cutoff=0.6):
            return f"; did you mean {names[close[0]]}?"
    return f"; known keys are {', '.join(key.rpartition('.')[2] for key in siblings)}"


def known_keys(section: type[BaseModel] = Params, prefix: str = "", optional: bool = False) -> Iterator[str]:
    """Yield all dotted keys, of sections and of their parameters, in the order of the file; ``optional``, of sections that may be null."""
    for key, field in _fields(section):
        yield f"{prefix}{key}"
        for inner in filter(
            _is_section, (field.annotation, *(get_args(field.annotation) if optional else ()))
        ):
            yield from known_keys(inner, f"{prefix}{key}.", optional)


def missing_keys(
    values: Mapping[str, Any], section: type[BaseModel] = Params, prefix: str = ""
) -> Iterator[str]:
    """Yield the dotted keys that a file lacks: a whole section as one key, and no key inside a section that may be null."""
    for key, field in _fields(section):
        if key not in values:
            yield f"{prefix}{key}"
        elif _is_section(field.annotation) and isinstance(values[key], Mapping):
            yield from missing_keys(values[key], field.annotation, f"{prefix}{key}.")


def default_values(section: type[BaseModel] = Params) -> dict[str, Any]:
    """Return all parameters with their defaults, as a file has them, without those that every project sets itself.

    Hydra composes ``conf/task/`` with them, as ``/base`` (``conf/hydra_plugins/defaults.py``), and ``tuneline
    upgrade`` adds them.
    """
    values: dict[str, Any] = {}
    for key, field in _fields(section):
        if isinstance(field.default, BaseModel):
            values[key] = field.default.model_dump()
        elif not field.is_required():
            values[key] = field.get_default()
        elif _is_section(field.annotation):
            values[key] = default_values(field.annotation)
    return values


def _fields(section: type[BaseModel]) -> Iterator[tuple[str, FieldInfo]]:
    return ((field.alias or name, field) for name, field in section.model_fields.items())


def _is_section(annotation: Any) -> TypeGuard[type[BaseModel]]:
    return isinstance(annotation, type) and issubclass(annotation, BaseModel)


FINE_TUNING_RATE = 2.0e-4
"""Learning rate of Adam above which fine-tuning usually destroys what an encoder has learned."""


def find_warnings(params: Params) -> list[str]:
    """Return one line for each doubtful value."""
    train, warnings = params.train, []
    adam = train.optimizer in {"adamw", "adam"}
    tuned = params.model.checkpoint is not None and params.model.head != "frozen"
    if tuned and adam and train.lora is None and train.learning_rate > FINE_TUNING_RATE:
        warnings.append(
            f"train.learning_rate: {train.learning_rate:g} suits training from scratch; fine-tuning a"
            " checkpoint with it usually destroys what the checkpoint has learned. Published values are 1e-5"
            " to 5e-5, for small models up to 1e-4."
        )
    if params.model.checkpoint is None and train.lora is not None:
        warnings.append(
            "train.lora: model.checkpoint is null, and LoRA freezes the body of the new model, which is"
            " random. Set train.lora to null, to train all weights, or model.checkpoint."
        )
    return warnings


def print_warnings(stage: str, params: Params) -> None:
    """Print the warnings, with the name of the stage."""
    for warning in find_warnings(params):
        say(f"{stage}: WARNING: {warning}")
