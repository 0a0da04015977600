"""Behaviour tests: the typed content of ``conf/behaviour/NAME.yaml``, and its checks against the data."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Literal, Self

from pydantic import Field, ValidationError, model_validator

from tuneline.errors import ParamsError
from tuneline.files.schemas import LabelSchema
from tuneline.params.loading import describe, read_yaml
from tuneline.params.section import Rate, Section

FOLDER = Path("conf/behaviour")
BLANK = re.compile(r"\{(\w+)\}")
"""Placeholder in a template."""
_DISABLE = "evaluate.behaviour: null disables these tests."

Word = Literal["typo", "lower_case", "upper_case", "no_final_punctuation", "negate", "swap_texts", "same_text"]
Label = str | int
"""A class, by name or by id."""


class Append(Section):
    """Append a text."""

    append: str


class Prepend(Section):
    """Prepend a text."""

    prepend: str


class Replace(Section):
    """Replace words. Only rows that have one of them are cases."""

    replace: Annotated[dict[str, str], Field(min_length=1)]


Change = Word | Append | Prepend | Replace


class Range(Section):
    """Range of numbers that a regression may predict."""

    low: float
    high: float


class Test(Section):
    """Keys of all kinds of tests."""

    name: str
    templates: list[Annotated[list[str], Field(min_length=1, max_length=2)]] | None = None
    """Texts of generated rows in the order of ``data.text_columns``, with ``{name}`` as placeholder. ``null``: rows of the reported
    split."""
    fill: dict[str, Annotated[list[str], Field(min_length=1)]] = Field(default_factory=dict)
    """Values of the placeholders; every combination is a case."""
    where: Label | None = None
    """Only rows of the reported split that have this label."""
    cases: Annotated[int, Field(ge=1)] = 200
    """Maximum number of cases, evenly spaced."""
    text: Literal["first", "last", "all"] | None = None
    """The texts that ``change`` changes. ``null``: all for spelling and replacing, the last one for what is added or negated."""
    min_pass_rate: Rate | None = None
    """Fraction of the cases that must pass, or the stage fails. ``null``: the rate is only reported."""

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        if self.templates is not None and self.where is not None:
            raise ValueError("where: templates have no label; it chooses among rows of the reported split")
        if self.templates is None and self.fill:
            raise ValueError("fill: there are no templates to fill in")
        return self


class Invariance(Test):
    """The prediction does not change."""

    kind: Literal["invariance"]
    change: Change
    tolerance: Annotated[float, Field(ge=0)] = 0.0
    """Regression: largest allowed change of the prediction."""


class Direction(Test):
    """A probability (or the predicted number of a regression) moves in one direction."""

    kind: Literal["direction"]
    change: Change
    label: Label | None = None
    """The class whose probability moves. ``null`` for a regression."""
    moves: Literal["up", "down"]
    tolerance: Annotated[float, Field(ge=0)] = 0.0
    """Largest allowed move in the other direction."""


class MinimumFunctionality(Test):
    """A simple case that the model must predict correctly."""

    kind: Literal["minimum_functionality"]
    change: Change | None = None
    """Applied before the prediction, for example ``same_text``."""
    expect: Label | Range


AnyTest = Annotated[Invariance | Direction | MinimumFunctionality, Field(discriminator="kind")]


class Suite(Section):
    """The tests of a file."""

    tests: Annotated[list[AnyTest], Field(min_length=1)]

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        names = [test.name for test in self.tests]
        for name in names:
            if names.count(name) > 1:
                raise ValueError(f"tests: {name!r} is listed twice")
        return self


def read_suite(name: str) -> Suite:
    """Read ``conf/behaviour/NAME.yaml``.

    Raises:
        ParamsError: The file is missing or not YAML, or a value in it is invalid.
    """
    path = FOLDER / f"{name}.yaml"
    if not path.is_file():
        available = ", ".join(sorted(file.stem for file in FOLDER.glob("*.yaml"))) or "none"
        raise ParamsError(f"evaluate.behaviour: {path} is missing.", f"Available: {available}. {_DISABLE}")
    try:
        return Suite.model_validate(read_yaml(path))
    except ValidationError as error:
        messages = [
            f"{'.'.join(map(str, detail['loc']))}: unknown key" if detail["type"] == "extra_forbidden" else describe(detail)
            for detail in error.errors()
        ]
        raise ParamsError("\n  ".join([f"{path}:", *messages])) from None


def check_suitable(test: AnyTest, texts: int, label_schema: LabelSchema) -> None:
    """Check that a test suits the data.

    Args:
        test: Test of ``conf/behaviour/NAME.yaml``.
        texts: Number of texts in a row.
        label_schema: Label schema.

    Raises:
        ParamsError: The test does not suit the data.
    """
    key = f"evaluate.behaviour, {test.name!r}"
    for problem in [*_of_templates(test, texts), *_of_task(test, label_schema)]:
        raise ParamsError(f"{key}: {problem}", f"Correct the file; {_DISABLE}")
    if test.change in ("swap_texts", "same_text") and texts != 2:
        raise ParamsError(f"{key}: {test.change} needs rows of two texts.", f"Remove the test; {_DISABLE}")
    for name in ("where", "label", "expect"):
        label = getattr(test, name, None)
        if label is not None and not isinstance(label, Range):
            label_id(label, label_schema, f"{key}, {name}")


def label_id(label: Label, label_schema: LabelSchema, key: str) -> int:
    """Return the id of a class given by name or id.

    Raises:
        ParamsError: The data has no such class.
    """
    names = label_schema.names or ()
    if isinstance(label, str) and label in names:
        return names.index(label)
    if isinstance(label, int) and 0 <= label < len(names):
        return label
    known = f"Its classes are {', '.join(map(repr, names))}." if names else "It has none: this is a regression."
    raise ParamsError(f"{key}: {label!r} is not a class of the data. {known}", _DISABLE)


def _of_templates(test: AnyTest, texts: int) -> Iterator[str]:
    for template in test.templates or []:
        if len(template) != texts:
            yield f"a template has {len(template)} text(s), a row has {texts}."
        for blank in BLANK.findall(" ".join(template)):
            if blank not in test.fill:
                yield f"fill has no values for {{{blank}}}."


def _of_task(test: AnyTest, label_schema: LabelSchema) -> Iterator[str]:
    if isinstance(test, Direction) and label_schema.is_regression != (test.label is None):
        yield "label says whose probability moves: a class, or null for a regression."
    if isinstance(test, MinimumFunctionality) and label_schema.is_regression != isinstance(test.expect, Range):
        yield "expect is a class, or low and high for a regression."
