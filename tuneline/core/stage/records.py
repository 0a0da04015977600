"""Base class of hand-over files: one pydantic model says what a JSON file has, reads and writes it.

Its numbers are rounded: six digits after the point, and more where a number has few of its own. It names
other files by their SHA-256.
"""

import hashlib
import json
import math
from collections.abc import Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Self

from pydantic import BaseModel, ConfigDict, Field, PlainSerializer, ValidationError, WrapValidator
from pydantic_core import ErrorDetails

from tuneline.core.runtime.errors import DataError
from tuneline.core.runtime.files import replace_file, write_json

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]


DIGITS = 6
"""Digits after the decimal point, unless a number would lose its significant ones."""
SIGNIFICANT = 3
"""Significant digits that a number keeps at least, such as 2.34e-07."""
NUMBER_DIGITS = 6
"""Significant digits of a number that is predicted, in whatever unit."""
MOST_PLACES = 300
"""Digits after the decimal point at most: ten to this power is a finite number."""


def _rounded(value: Any, validate: Any) -> float:
    number: float = validate(value)
    if isinstance(value, int):
        return value
    return rounded(number)


Number = Annotated[float, WrapValidator(_rounded), PlainSerializer(lambda number: number)]
"""A finite number, rounded (``decimal_places``). Integers stay integers."""

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


def decimal_places(number: float, significant: int = SIGNIFICANT) -> int:
    """Return how many digits after the decimal point keep the significant ones, ``DIGITS`` at least."""
    if number == 0 or not math.isfinite(number):
        return DIGITS
    return max(DIGITS, significant - 1 - math.floor(math.log10(abs(number))))


def rounded(number: float, significant: int = SIGNIFICANT) -> float:
    """Return a number, rounded."""
    return round(number, decimal_places(number, significant))


def shown(number: float, places: int) -> str:
    """Return a number for people: so many digits after the point, or three significant ones if all are 0."""
    text = f"{number:.{places}f}"
    if number and float(text) == 0:
        return f"{number:.{SIGNIFICANT}g}"
    return text


def rounded_up(number: float, significant: int) -> float:
    """Return a number that is rounded up: half the width of an interval promises nothing if it shrinks."""
    places = decimal_places(number, significant)
    nearest = round(number, places)
    return nearest if nearest >= number else round(nearest + 10.0**-places, places)


def rounded_numbers(numbers: "Floats", significant: int, sizes: "Floats | None" = None) -> "Floats":
    """Return numbers, rounded; of the same shape.

    Args:
        numbers: The numbers.
        significant: Digits that each keeps at least.
        sizes: What these digits are counted in, of the same shape; ``None``: in the number itself.
    """
    import numpy as np  # a stage that only writes records does not wait for it

    if sizes is None:
        sizes = np.abs(numbers)
    with np.errstate(divide="ignore"):
        places = np.maximum(DIGITS, significant - 1 - np.floor(np.log10(sizes)))
    places = np.nan_to_num(places, nan=DIGITS, posinf=DIGITS)
    factors = 10.0 ** np.minimum(places, MOST_PLACES)
    return np.asarray(np.round(numbers * factors) / factors)


def rounded_probabilities(probabilities: "Floats") -> "Floats":
    """Return probabilities, rounded so that only those that are 0 or 1 become so; of the same shape."""
    return rounded_numbers(probabilities, SIGNIFICANT, probabilities.clip(max=1 - probabilities))


def file_hash(path: Path) -> str:
    """Return the SHA-256 of a file, in hexadecimal.

    A file that has not been touched since the last call is not read again.
    """
    status = path.stat()
    return _hash(path, (status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns))


@lru_cache(maxsize=1024)
def _hash(path: Path, status: tuple[int, ...]) -> str:  # noqa: ARG001 - the key of the cache
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def split_hash(files: Sequence[Path]) -> str:
    """Return one SHA-256 for the files of a split, as ``split_files`` gives them.

    The hash of a single file is the file's own. The hash of shards is what ``sha256sum train-*.parquet |
    sha256sum`` prints: a hash of their hashes and names.
    """
    if len(files) == 1:
        return file_hash(files[0])
    lines = [f"{file_hash(file)}  {file.name}\n" for file in files]
    return hashlib.sha256("".join(lines).encode()).hexdigest()


def content_key(*values: Any) -> str:
    """Return a hash of values of JSON: parameters, versions or hashes of files and code."""
    return hashlib.sha256(json.dumps(values, sort_keys=True).encode()).hexdigest()[:32]
