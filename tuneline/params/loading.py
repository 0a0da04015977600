"""Reader of ``params.yaml``, and what other readers of sections share with it: keys, defaults, errors.

An error names the line, or the dotted key and for an unknown key the nearest known one.
"""

import difflib
from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeGuard, get_args, get_origin

from pydantic import BaseModel, ValidationError
from pydantic.fields import FieldInfo
from pydantic_core import ErrorDetails

from tuneline.core.yaml_files import read_yaml
from tuneline.params import Params
from tuneline.params.section import check_functions
from tuneline.paths import PARAMS, PIPELINE
from tuneline.runtime.errors import ParamsError
from tuneline.runtime.terminal import say


def load_params(path: Path = PARAMS) -> Params:
    """Read and check a parameter file.

    Raises:
        ParamsError: The file is missing, is not valid YAML, or contains invalid values. The message lists all
            of them, each with its dotted key. Or it names a function in ``project/`` that does not exist.
    """
    params = parse_params(read_yaml(path), path)

    pipeline = None
    pipeline_file = path.with_name(PIPELINE.name)
    if params.functions and pipeline_file.exists():
        pipeline = read_yaml(pipeline_file)
    check_functions(params.functions, path.parent, pipeline)
    return params


def parse_params(values: Any, path: Path = PARAMS, given: Collection[str] = ()) -> Params:
    """Check the contents of a parameter file.

    A key that is missing is an error, although it has a default in code: DVC sees only what the file says, so
    a later version with another default would change results without running a stage again.

    Args:
        values: The contents.
        path: The file, for messages.
        given: Dotted keys that the user of a command set. If all errors are in them, they are at fault, not
            the file.

    Raises:
        ParamsError: A key is missing or unknown, or a value is invalid.
    """
    require_mapping(values, path, Params)
    problems = {key: f"{key}: missing" for key in missing_keys(values)}
    try:
        params = Params.model_validate(values)
    except ValidationError as error:
        for problem in error.errors():
            problems[dotted_key(problem)] = describe_problem(problem)
    if not problems:
        return params

    subject = "What was given" if problems.keys() <= set(given) else str(path)
    hint = None
    if any(": missing" in line for line in problems.values()):
        hint = "docs/parameters.md has the defaults. The file has every key, because DVC sees only the file."
    raise ParamsError(_list_problems(subject, problems.values()), hint)


def require_mapping(values: Any, path: Path, section: type[BaseModel]) -> None:
    """Check that the content of a file is a mapping.

    Raises:
        ParamsError: It is not; the message names keys that it should have.
    """
    if not isinstance(values, dict):
        first_keys = ", ".join([key for key, _ in _fields(section)][:3])
        raise ParamsError(
            f"{path}: expected a mapping of sections ({first_keys}, ...), not {type(values).__name__}."
        )


def describe_error(error: ValidationError, path: Path, section: type[BaseModel]) -> str:
    """Describe all errors of a file that is a section: one line for the file, and one for each error."""
    lines = [describe_problem(problem, section) for problem in error.errors()]
    return _list_problems(str(path), lines)


def _list_problems(subject: str, lines: Collection[str]) -> str:
    count = "1 error" if len(lines) == 1 else f"{len(lines)} errors"
    return "\n  ".join([f"{subject} has {count}:", *lines])


def dotted_key(problem: ErrorDetails) -> str:
    """Return the key of an error in its file, such as ``train.warmup_ratio``."""
    return ".".join(map(str, problem["loc"]))


PLAIN_MESSAGES = {
    "model_type": "should be a mapping of keys",
    "dict_type": "should be a mapping of keys",
    "path_type": "should be a path",
}
"""Messages in place of pydantic's, which name classes of Python."""


def describe_problem(problem: ErrorDetails, section: type[BaseModel] = Params) -> str:
    """Describe an error in one line: the dotted key, and what is wrong; for an unknown key, the nearest one.

    Args:
        problem: The error, as pydantic describes it.
        section: What the whole file should be.
    """
    key = dotted_key(problem)
    if problem["type"] == "extra_forbidden":
        return f"{key}: unknown key{suggestion(key, list(known_keys(section, optional=True)))}"
    if problem["type"] == "missing":
        return f"{key}: missing"
    if problem["type"] == "value_error":
        # Validators of a section name the key themselves, relative to the section.
        message = problem["msg"].removeprefix("Value error, ")
        return f"{key}.{message}" if key else message
    message = PLAIN_MESSAGES.get(problem["type"], problem["msg"])
    return f"{key}: {message[0].lower()}{message[1:]}, not {problem['input']!r}"


def suggestion(key: str, keys: Sequence[str]) -> str:
    """Return the end of a message about an unknown key: the nearest known key, or all keys of its section.

    Args:
        key: The unknown key.
        keys: All known keys. ``*`` in one stands for any index or name.
    """
    section, _, name = key.rpartition(".")
    siblings = [known for known in keys if _section_of(known, key) == section]
    if not siblings:  # the section is misspelled, too
        close = difflib.get_close_matches(key, keys, n=1)
        if close:
            return f"; did you mean {close[0]}?"
        siblings = [known for known in keys if "." not in known]

    for candidates in (siblings, keys):  # a key may be in the wrong section
        for known in candidates:
            words = known.rpartition(".")[2].split("_")
            if len(words) > 1 and "".join(word[:1] for word in words) == name:  # lr: learning_rate
                return f"; did you mean {known}?"
        # reversed: of two keys with the same last part, the first one counts
        by_name = {known.rpartition(".")[2]: known for known in reversed(candidates)}
        close = difflib.get_close_matches(name, list(by_name), n=1)
        if close:
            return f"; did you mean {by_name[close[0]]}?"
    names = ", ".join(sibling.rpartition(".")[2] for sibling in siblings)
    return f"; known keys are {names}"


def _section_of(known: str, key: str) -> str:
    """Return the section of a known key, with the names of an unknown one in the place of ``*``."""
    parts = known.split(".")[:-1]
    names = key.split(".")[:-1]
    if len(parts) == len(names):
        parts = [name if part == "*" else part for part, name in zip(parts, names, strict=True)]
    return ".".join(parts)


def known_keys(section: type[BaseModel] = Params, prefix: str = "", optional: bool = False) -> Iterator[str]:
    """Yield all dotted keys, of sections and of what is in them, in the order of the file.

    Args:
        section: The section, or what the whole file is.
        prefix: Dotted key of the section, with a dot at its end.
        optional: Also yield keys in sections that may be null, and in sections that are in a list or mapping,
            with ``*`` for the index or name: ``stages.*``, ``stages.*.retries``.
    """
    for name, field in _fields(section):
        key = f"{prefix}{name}"
        yield key
        if _is_section(field.annotation):
            yield from known_keys(field.annotation, f"{key}.", optional)
        elif optional:
            yield from _optional_keys(field.annotation, key)


def _optional_keys(annotation: Any, key: str) -> Iterator[str]:
    """Yield the keys in sections that a parameter may have; of a list or mapping, the keys of its entries."""
    if get_origin(annotation) in (list, dict):
        key = f"{key}.*"
    for argument in get_args(annotation):
        if _is_section(argument):
            if key.endswith(".*"):
                yield key
            yield from known_keys(argument, f"{key}.", optional=True)


def missing_keys(
    values: Mapping[str, Any], section: type[BaseModel] = Params, prefix: str = ""
) -> Iterator[str]:
    """Yield the dotted keys that a file lacks.

    A section that is missing as a whole is one key. A section that may be null lacks none.
    """
    for key, field in _fields(section):
        if key not in values:
            yield f"{prefix}{key}"
        elif _is_section(field.annotation) and isinstance(values[key], Mapping):
            yield from missing_keys(values[key], field.annotation, f"{prefix}{key}.")


def default_values(section: type[BaseModel] = Params) -> dict[str, Any]:
    """Return all parameters with their defaults, as a file has them, except what every project sets itself.

    Hydra composes ``conf/task/`` with them, as ``/base`` (``tuneline/params/hydra_plugins/``).
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
    """Yield the keys of a section as its file has them, with their fields."""
    for name, field in section.model_fields.items():
        yield field.alias or name, field


def _is_section(annotation: Any) -> TypeGuard[type[BaseModel]]:
    return isinstance(annotation, type) and issubclass(annotation, BaseModel)


FINE_TUNING_RATE = 2.0e-4
"""Learning rate of AdamW above which fine-tuning usually destroys what an encoder has learned."""


def find_warnings(params: Params) -> list[str]:
    """Return one line for each doubtful value."""
    train = params.train
    warnings = []
    tuned = params.model.checkpoint is not None and params.model.head != "frozen"
    if tuned and train.lora is None and train.learning_rate > FINE_TUNING_RATE:
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
