"""The file of behaviour tests, ``conf/behaviour/NAME.yaml``, typed."""

from pathlib import Path
from typing import Annotated, Literal, Self

from pydantic import Field, ValidationError, model_validator

from tuneline.errors import ParamsError
from tuneline.params.loading import describe, read_yaml
from tuneline.params.section import Rate, Section

FOLDER = Path("conf/behaviour")

Word = Literal["typo", "lower_case", "upper_case", "no_final_punctuation", "negate", "swap_texts", "same_text"]
Label = str | int
"""A class, by name or by id."""


class Append(Section):
    """Puts a text behind."""

    append: str


class Prepend(Section):
    """Puts a text in front."""

    prepend: str


class Replace(Section):
    """Puts words in the place of others. Only rows that have one of them are cases."""

    replace: Annotated[dict[str, str], Field(min_length=1)]


Change = Word | Append | Prepend | Replace


class Range(Section):
    """Numbers that a regression may give."""

    low: float
    high: float


class Test(Section):
    """What all kinds of tests have."""

    name: str
    templates: list[Annotated[list[str], Field(min_length=1, max_length=2)]] | None = None
    """Rows to write: the texts in the order of ``data.text_columns``, with ``{word}`` for something to fill in. ``null``: rows of
    the reported split."""
    fill: dict[str, Annotated[list[str], Field(min_length=1)]] = Field(default_factory=dict)
    """What to fill in; every combination is a case."""
    where: Label | None = None
    """Only rows of the reported split that have this label."""
    cases: Annotated[int, Field(ge=1)] = 200
    """At most so many, evenly spaced."""
    text: Literal["first", "last", "all"] | None = None
    """The texts that ``change`` changes. ``null``: all for spelling and replacing, the last one for what is added or negated."""
    min_pass_rate: Rate | None = None
    """Share of the cases that must pass, or the stage fails. ``null``: it is only reported."""

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        if self.templates is not None and self.where is not None:
            raise ValueError("where: templates have no label; it chooses among rows of the reported split")
        if self.templates is None and self.fill:
            raise ValueError("fill: there are no templates to fill in")
        return self


class Invariance(Test):
    """What the model says stays as it was."""

    kind: Literal["invariance"]
    change: Change
    tolerance: Annotated[float, Field(ge=0)] = 0.0
    """Regression: how far the number may move."""


class Direction(Test):
    """A probability (or the number, in a regression) moves one way."""

    kind: Literal["direction"]
    change: Change
    label: Label | None = None
    """The class whose probability moves. ``null`` for a regression."""
    moves: Literal["up", "down"]
    tolerance: Annotated[float, Field(ge=0)] = 0.0
    """How far it may move the other way."""


class MinimumFunctionality(Test):
    """Something simple that the model must get right."""

    kind: Literal["minimum_functionality"]
    change: Change | None = None
    """Made before the model sees the row, for example ``same_text``."""
    expect: Label | Range


AnyTest = Annotated[Invariance | Direction | MinimumFunctionality, Field(discriminator="kind")]


class Suite(Section):
    """All tests of a file."""

    tests: Annotated[list[AnyTest], Field(min_length=1)]

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        names = [test.name for test in self.tests]
        for name in names:
            if names.count(name) > 1:
                raise ValueError(f"tests: {name!r} stands there twice")
        return self


def read_suite(name: str) -> Suite:
    """Reads ``conf/behaviour/NAME.yaml``.

    Raises:
        ParamsError: It is missing or no YAML, or a value in it is not what its key takes.
    """
    path = FOLDER / f"{name}.yaml"
    if not path.is_file():
        there = ", ".join(sorted(found.stem for found in FOLDER.glob("*.yaml"))) or "none"
        raise ParamsError(f"evaluate.behaviour: {path} is missing.", f"Files there are: {there}. null leaves these tests out.")
    try:
        return Suite.model_validate(read_yaml(path))
    except ValidationError as error:
        said = [
            f"{'.'.join(map(str, fault['loc']))}: unknown key" if fault["type"] == "extra_forbidden" else describe(fault)
            for fault in error.errors()
        ]
        raise ParamsError("\n  ".join([f"{path}:", *said])) from None
