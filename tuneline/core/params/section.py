"""Base class of the sections of ``params.yaml`` and ``conf/flows.yaml``, and types that they share."""

import re
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Self

from pydantic import BaseModel, ConfigDict, Field

from tuneline.core.paths import PROJECT
from tuneline.core.runtime.errors import ParamsError

Rate = Annotated[float, Field(ge=0, le=1)]
Fraction = Annotated[float, Field(ge=0, lt=1)]
Positive = Annotated[int, Field(ge=1)]
PositiveFloat = Annotated[float, Field(gt=0)]


class Section(BaseModel):
    """One section: frozen and strict.

    Unknown keys are errors, so that a misspelled key never leaves a default in place.

    A field is the one place of a parameter: its type, its default, and its meaning in the docstring below it
    (unit, special values, what ``null`` does), whose first sentence docs/parameters.md has.
    """

    model_config = ConfigDict(
        frozen=True, extra="forbid", strict=True, allow_inf_nan=False, use_attribute_docstrings=True
    )


_NAME = re.compile(r"(?P<file>.+\.py):(?P<function>[^:]*)")


@dataclass(frozen=True)
class FunctionName:
    """A function in a Python file of the folder ``project/``.

    Attributes:
        file: Path of the file, relative to the root of the repository.
        function: Name of the function.
    """

    file: Path
    function: str

    def __str__(self) -> str:
        return f"{self.file.as_posix()}:{self.function}"

    @staticmethod
    def matches(text: str) -> bool:
        """Return True if a text names a function of a file; otherwise it is a metric of the table."""
        return _NAME.fullmatch(text) is not None

    @classmethod
    def parse(cls, key: str, text: str) -> Self:
        """Parse ``project/FILE.py:FUNCTION``, the value of the parameter ``key``.

        Raises:
            ValueError: The text is not of this form, or the file is not in ``project/``.
        """
        match = _NAME.fullmatch(text)
        if match is not None:
            path = Path(match["file"])
            parts = path.with_suffix("").parts
            identifiers = [*parts, match["function"]]
            if parts[:1] == PROJECT.parts and all(part.isidentifier() for part in identifiers):
                return cls(path, match["function"])
        raise ValueError(
            f"{key}: {text!r} is not a function in the folder {PROJECT}/; write {PROJECT}/FILE.py:FUNCTION"
        )

    @property
    def module(self) -> str:
        """Name of the file as a Python module."""
        return ".".join(self.file.with_suffix("").parts)


def parse_functions(key: str, texts: Iterable[str], taken: Collection[str] = ()) -> list[FunctionName]:
    """Parse the names of several functions, the value of the parameter ``key``.

    Raises:
        ValueError: One is no name of a function, or two results would have one name, which can be ``taken``.
    """
    functions = [FunctionName.parse(key, text) for text in texts]
    names = set(taken)
    for function in functions:
        if function.function in names:
            raise ValueError(f"{key}: {function} has the name of another one; rename the function")
        names.add(function.function)
    return functions


def check_functions(functions: Iterable[tuple[str, FunctionName]], root: Path, pipeline: Any) -> None:
    """Check that functions are in their files, and that DVC runs their stage again when they change.

    Raises:
        ParamsError: A file is missing, does not have the name, or is no dependency of its stage.
    """
    for parameter, name in functions:
        file = root / name.file
        if not file.is_file():
            raise ParamsError(
                f"{parameter}: {name.file} does not exist.", "Write the function into that file."
            )
        # Before a training: only the stage of the parameter runs the file.
        if name.function not in file.read_text(encoding="utf-8", errors="replace"):
            raise missing_function(parameter, name)
        if pipeline is not None:
            check_listed(parameter, [name.file], pipeline)


def missing_function(parameter: str, name: FunctionName) -> ParamsError:
    """Return the error about a file that does not have the function."""
    return ParamsError(
        f"{parameter}: {name.file} has no function {name.function!r}.",
        "Correct the name, or write the function.",
    )


def check_listed(parameter: str, files: Sequence[Path], pipeline: Any) -> None:
    """Check that the stage of a parameter depends on files of the user, in the content of ``dvc.yaml``.

    DVC does not notice a change of any other file.

    Raises:
        ParamsError: A file is not listed. The message has the line to add.
    """
    stage = parameter.partition(".")[0]
    deps = {Path(dep) for dep in pipeline["stages"][stage]["deps"]}
    for file in files:
        if not deps & {file, *file.parents}:
            raise ParamsError(
                f"{parameter}: the stage {stage} does not depend on {file}, so a change of that file would"
                " not run it again.",
                f"Add the line `- {file.as_posix()}` to the deps of {stage} in dvc.yaml.",
            )
