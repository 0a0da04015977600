"""Reader of ``params.yaml``, and what other readers of YAML share with it: syntax, keys, defaults, errors.

An error names the line, or the dotted key and for an unknown key the nearest known one.
"""

import difflib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeGuard, TypeVar, get_args, get_origin

from pydantic import BaseModel, ValidationError
from pydantic.fields import FieldInfo
from pydantic_core import ErrorDetails

from tuneline.core.params import Params
from tuneline.core.params.section import check_functions
from tuneline.core.paths import PARAMS, PIPELINE
from tuneline.core.runtime.errors import ParamsError
from tuneline.core.runtime.terminal import say


def read_yaml(path: Path) -> Any:
    """Read YAML 1.2, as DVC does: ``2e-5`` is a number.

    Raises:
        ParamsError: The file is missing or is not valid YAML.
    """
    from ruamel.yaml import YAML
    from ruamel.yaml.error import MarkedYAMLError, YAMLError

    try:
        return YAML(typ="safe", pure=True).load(path)
    except FileNotFoundError:
        raise ParamsError(f"{path} is missing.", "Run this in the root of the project.") from None
    except MarkedYAMLError as error:
        marker = _conflict_line(path)
        if marker is not None:
            raise ParamsError(
                f"{path}, line {marker}: a merge left a conflict.", "Keep one of the two, and git add it."
            ) from None
        line = error.problem_mark.line + 1 if error.problem_mark else "?"
        raise ParamsError(
            f"{path}, line {line}: invalid YAML: {error.problem}.", "Correct that line."
        ) from None
    # ValueError: not UTF-8, or a date without quotes that no calendar has
    except (YAMLError, ValueError) as error:
        raise ParamsError(f"{path}: invalid YAML: {error}") from None
    except RecursionError:
        raise ParamsError(f"{path}: invalid YAML: lists or mappings are nested too deep.") from None


def _conflict_line(path: Path) -> int | None:
    """Return the number of the first line with which git marks a conflict; ``None`` if there is none."""
    lines = path.read_text(encoding="utf-8", errors="replace").splitlines()
    for number, line in enumerate(lines, start=1):
        if line.startswith("<<<<<<< "):
            return number
    return None


AnySection = TypeVar("AnySection", bound=BaseModel)

FINE_TUNING_RATE = 2.0e-4
"""Learning rate of AdamW above which fine-tuning usually destroys what an encoder has learned."""


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


def parse_params(values: Any, path: Path = PARAMS) -> Params:
    """Check the contents of a parameter file; ``path`` is the file, for messages.

    A key that is missing is an error, although it has a default in code: DVC sees only what the file says, so
    a later version with another default would change results without running a stage again.

    Raises:
        ParamsError: A key is missing or unknown, or a value is invalid.
    """
    params = validated(Params, values, path)
    missing = [f"{key}: missing" for key in missing_keys(values)]
    if missing:
        hint = "docs/parameters.md has the defaults. The file has every key, because DVC sees only the file."
        raise ParamsError(_list_problems(path, missing), hint)
    return params


def validated(section: type[AnySection], values: Any, path: Path, hint: str | None = None) -> AnySection:
    """Return the content of a file as a section.

    Raises:
        ParamsError: The content is not valid. The message lists all errors, with the dotted keys.
    """
    if not isinstance(values, dict):
        raise ParamsError(f"{path}: expected a mapping of sections, not {type(values).__name__}.")
    try:
        return section.model_validate(values)
    except ValidationError as error:
        lines = [describe_problem(problem, section) for problem in error.errors()]
        raise ParamsError(_list_problems(path, lines), hint) from None


def _list_problems(path: Path, lines: Sequence[str]) -> str:
    count = "1 error" if len(lines) == 1 else f"{len(lines)} errors"
    return f"{path} has {count}:\n  " + "\n  ".join(lines)


def describe_problem(problem: ErrorDetails, section: type[BaseModel] = Params) -> str:
    """Describe an error in one line: the dotted key, and what is wrong; for an unknown key, the nearest one.

    Args:
        problem: The error, as pydantic describes it.
        section: What the whole file should be.
    """
    key = ".".join(map(str, problem["loc"]))
    if problem["type"] == "extra_forbidden":
        return f"{key}: unknown key{suggestion(key, list(known_keys(section, optional=True)))}"
    if problem["type"] == "missing":
        return f"{key}: missing"
    if problem["type"] == "value_error":
        # Validators of a section name the key themselves, relative to the section.
        message = problem["msg"].removeprefix("Value error, ")
        return f"{key}.{message}" if key else message
    if problem["type"] == "string_type" and isinstance(problem["input"], (int, float)):
        return f"{key}: a name, in quotes: '{problem['input']}'"
    return f"{key}: {problem['msg'][0].lower()}{problem['msg'][1:]}, not {problem['input']!r}"


def suggestion(key: str, keys: Sequence[str]) -> str:
    """Return the end of a message about an unknown key: the nearest known key.

    That is a key of this name in another section, or with these initials (``lr``), else the most similar one.

    Args:
        key: The unknown key.
        keys: All known keys. ``*`` in one stands for any index or name.
    """
    name = key.rpartition(".")[2]
    nearest = []
    for known in keys:
        known_name = known.rpartition(".")[2]
        initials = "".join(word[:1] for word in known_name.split("_"))
        if name in {known_name, initials}:
            nearest.append(known)
    nearest += difflib.get_close_matches(key, keys, n=1, cutoff=0.7)
    return f"; did you mean {nearest[0]}?" if nearest else ""


def known_keys(section: type[BaseModel] = Params, prefix: str = "", optional: bool = False) -> Iterator[str]:
    """Yield all dotted keys, of sections and of what is in them, in the order of the file.

    Args:
        section: The section, or what the whole file is.
        prefix: Dotted key of the section, with a dot at its end.
        optional: Also yield keys in sections that may be null, and in sections that are in a list or mapping,
            with ``*`` for the index or name: ``stages.*.retries``.
    """
    for name, field in _fields(section):
        key = f"{prefix}{name}"
        yield key
        if _is_section(field.annotation):
            yield from known_keys(field.annotation, f"{key}.", optional)
        elif optional:
            if get_origin(field.annotation) in (list, dict):
                key += ".*"
            for argument in filter(_is_section, get_args(field.annotation)):
                yield from known_keys(argument, f"{key}.", optional)


def missing_keys(
    values: Mapping[str, Any], section: type[BaseModel] = Params, prefix: str = ""
) -> Iterator[str]:
    """Yield the dotted keys that a file lacks.

    A section that is missing as a whole is one key. A section that may be null lacks none.
    """
    for key, field in _fields(section):
        if key not in values:
            yield f"{prefix}{key}"
        elif _is_section(field.annotation):
            yield from missing_keys(values[key], field.annotation, f"{prefix}{key}.")


def default_values(section: type[BaseModel] = Params) -> dict[str, Any]:
    """Return all parameters with their defaults, as a file has them, except what every project sets itself.

    ``conf/base.yaml`` has them for the tasks in ``conf/task/`` (``make parameters`` writes it).
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


def warn_of_learning_rate(stage: str, params: Params) -> None:
    """Print a warning, with the name of the stage, of a learning rate that is too high for fine-tuning."""
    train = params.train
    is_tuned = params.model.checkpoint is not None and params.model.head != "frozen" and train.lora is None
    if is_tuned and train.learning_rate > FINE_TUNING_RATE:
        say(
            f"{stage}: WARNING: train.learning_rate: {train.learning_rate:g} suits training from scratch;"
            " fine-tuning a checkpoint with it usually destroys what the checkpoint has learned. Published"
            " values are 1e-5 to 5e-5, for small models up to 2e-4."
        )
