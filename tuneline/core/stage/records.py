"""Base class of hand-over files: one pydantic model says what a JSON file has, reads and writes it."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, ClassVar, Self

from pydantic import BaseModel, ConfigDict, Field, PlainSerializer, ValidationError, WrapValidator
from pydantic_core import ErrorDetails

from tuneline.core.runtime.atomic_files import replace_file, write_json
from tuneline.core.runtime.errors import DataError
from tuneline.core.stage.rounding import rounded


def _rounded(value: Any, validate: Any) -> float:
    number: float = validate(value)
    if isinstance(value, int):
        return value
    return rounded(number)


Number = Annotated[float, WrapValidator(_rounded), PlainSerializer(lambda number: number)]
"""A finite number, rounded (``tuneline.core.stage.rounding``). Integers stay integers."""

OMITTED: Any = Field(default=None, exclude_if=lambda value: value is None)
"""Default of a key that is left out of the file when it is ``None``.

All other keys that are ``None`` are written as ``null``.
"""


class Record(BaseModel):
    """One hand-over file, or an object in it: frozen, with finite numbers.

    Arrays are ``Sequence``, objects with free keys ``Mapping``.

    Unknown keys are kept and written again: a file may be older or newer than the code that reads it (the
    profile of a promoted model, an exported model from another checkout, metrics of another commit).
    """

    model_config = ConfigDict(
        frozen=True,
        extra="allow",
        strict=True,
        allow_inf_nan=False,
        validate_by_name=True,
        validate_by_alias=True,
        serialize_by_alias=True,
    )

    written_by: ClassVar[str] = ""
    """The stage that writes the file, for messages."""
    one_line: ClassVar[bool] = False
    """True for a file without line breaks: indented, a long list of numbers is mostly white space."""

    @classmethod
    def read(cls, path: Path, hint: str | None = None) -> Self:
        """Read the file; ``hint`` says how to get a valid one. Default: run the stage that writes it.

        Raises:
            DataError: The file is missing or invalid. The message names the file and the dotted key.
        """
        try:
            return cls.parse(path.read_bytes(), path, hint)
        except FileNotFoundError:
            raise DataError(f"{path} is missing.", hint or cls._hint(path)) from None

    @classmethod
    def read_if_exists(cls, path: Path, hint: str | None = None) -> Self | None:
        """Read the file; ``None`` if it does not exist."""
        return cls.read(path, hint) if path.exists() else None

    @classmethod
    def read_if_valid(cls, path: Path) -> Self | None:
        """Read the file for a page that shows what there is; ``None`` if it is missing or invalid."""
        try:
            return cls.read(path)
        except (DataError, OSError):
            return None

    @classmethod
    def parse(cls, content: bytes | str, source: Path | str, hint: str | None = None) -> Self:
        """Check the content of a file that is not in the file system, such as a file of another commit.

        Messages name the source.
        """
        try:
            return cls.model_validate_json(content)
        except ValidationError as error:
            problems = error.errors(include_url=False)
            message = f"{source}: {_describe(problems[0])}"
            if len(problems) > 1:
                message += f" (and {len(problems) - 1} more)"
            raise DataError(f"{message}.", hint or cls._hint(source)) from None

    @classmethod
    def _hint(cls, source: Path | str) -> str | None:  # noqa: ARG003 - for subclasses
        if not cls.written_by:
            return None
        return f"Write it again: `dvc repro -f {cls.written_by}`."


def _describe(problem: ErrorDetails) -> str:
    """Describe one error in one line: the dotted key and what is wrong."""
    if problem["type"] == "json_invalid":
        return problem["msg"][0].lower() + problem["msg"][1:]
    key = ".".join(map(str, problem["loc"])) or "content"
    if problem["type"] == "missing":
        return f"{key}: missing"
    message = problem["msg"].removeprefix("Value error, ")
    return f"{key}: {message[0].lower()}{message[1:]}, not {problem['input']!r:.80}"


class Metrics(Record):
    """A flat object of finite numbers with 6 digits after the decimal point, by name.

    Names depend on task, splits and parameters.
    """

    __pydantic_extra__: dict[str, Number]

    @classmethod
    def of(cls, values: Mapping[str, float]) -> Self:
        """Return the metrics of a stage, rounded; a ``ValueError`` names one that is NaN or infinite."""
        numbers = {}
        for name, value in values.items():
            numbers[name] = value if isinstance(value, int) else float(value)  # also from numpy's numbers
        return cls.model_validate(numbers)

    @classmethod
    def read_values(cls, path: Path) -> Mapping[str, float]:
        """Return the metrics in a file, for a page; none if it is missing or invalid."""
        metrics = cls.read_if_valid(path)
        return metrics.values if metrics else {}

    @classmethod
    def _hint(cls, source: Path | str) -> str:
        return f"Write it again: `dvc repro -f {Path(source).stem}`."

    @property
    def values(self) -> Mapping[str, float]:
        """All metrics by name."""
        return self.__pydantic_extra__


def write_record(path: Path, record: Record) -> None:
    """Write the file of a record atomically.

    Raises:
        DiskError: The disk is full, or the folder cannot be created or written.
    """
    values = record.model_dump(mode="json")
    if not record.one_line:
        write_json(path, values)
        return
    with replace_file(path) as partial:
        partial.write_text(json.dumps(values) + "\n", encoding="utf-8")
