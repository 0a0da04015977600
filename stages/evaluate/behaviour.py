"""Tests of the model's behaviour, as in Ribeiro et al.

2020, "Beyond Accuracy: Behavioral Testing of NLP Models with CheckList".
"""

import itertools
import re
import zlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal, Self

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, ValidationError, model_validator

from tuneline.core.errors import DataError, ParamsError
from tuneline.core.tables import SplitReader
from tuneline.core.terminal import progress
from tuneline.core.yaml_files import read_yaml
from tuneline.evaluation.records import BehaviourResult, FailedCase, TestedTexts
from tuneline.metrics.curves import probabilities
from tuneline.metrics.stats import wilson_interval
from tuneline.params.loading import describe_problem
from tuneline.params.section import Rate, Section
from tuneline.tasks import Task

FOLDER = Path("conf/behaviour")
BLANK = re.compile(r"\{(\w+)\}")
"""Placeholder in a template."""
_DISABLE = "evaluate.behaviour: null disables these tests."

Word = Literal[
    "typo", "lower_case", "upper_case", "no_final_punctuation", "negate", "swap_texts", "same_text"
]
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


TextChange = Word | Append | Prepend | Replace


class ExpectedRange(Section):
    """Range of numbers that a regression may predict."""

    low: float
    high: float


class BehaviourTest(Section):
    """Keys of all kinds of tests."""

    name: str
    templates: list[Annotated[list[str], Field(min_length=1, max_length=2)]] | None = None
    """Texts of generated rows in the order of ``data.text_columns``, with ``{name}`` as placeholder.

    ``null``: rows of the reported
    split."""
    fill: dict[str, Annotated[list[str], Field(min_length=1)]] = Field(default_factory=dict)
    """Values of the placeholders; every combination is a case."""
    where: Label | None = None
    """Only rows of the reported split that have this label."""
    cases: Annotated[int, Field(ge=1)] = 200
    """Maximum number of cases, evenly spaced."""
    text: Literal["first", "last", "all"] | None = None
    """The texts that ``change`` changes.

    ``null``: all for spelling and replacing, the last one for what is added or negated.
    """
    min_pass_rate: Rate | None = None
    """Fraction of the cases that must pass, or the stage fails. ``null``: the rate is only reported."""

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        if self.templates is not None and self.where is not None:
            raise ValueError("where: templates have no label; it chooses among rows of the reported split")
        if self.templates is None and self.fill:
            raise ValueError("fill: there are no templates to fill in")
        return self


class Invariance(BehaviourTest):
    """The prediction does not change."""

    kind: Literal["invariance"]
    change: TextChange
    tolerance: Annotated[float, Field(ge=0)] = 0.0
    """Regression: largest allowed change of the prediction."""


class Direction(BehaviourTest):
    """A probability (or the predicted number of a regression) moves in one direction."""

    kind: Literal["direction"]
    change: TextChange
    label: Label | None = None
    """The class whose probability moves. ``null`` for a regression."""
    moves: Literal["up", "down"]
    tolerance: Annotated[float, Field(ge=0)] = 0.0
    """Largest allowed move in the other direction."""


class MinimumFunctionality(BehaviourTest):
    """A simple case that the model must predict correctly."""

    kind: Literal["minimum_functionality"]
    change: TextChange | None = None
    """Applied before the prediction, for example ``same_text``."""
    expect: Label | ExpectedRange


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
    """Read ``conf/behaviour/NAME.yaml``; raise a ParamsError that names what is missing or invalid in it."""
    path = FOLDER / f"{name}.yaml"
    if not path.is_file():
        available = ", ".join(sorted(file.stem for file in FOLDER.glob("*.yaml"))) or "none"
        raise ParamsError(f"evaluate.behaviour: {path} is missing.", f"Available: {available}. {_DISABLE}")
    try:
        return Suite.model_validate(read_yaml(path))
    except ValidationError as error:
        messages = [
            (
                f"{'.'.join(map(str, detail['loc']))}: unknown key"
                if detail["type"] == "extra_forbidden"
                else describe_problem(detail)
            )
            for detail in error.errors()
        ]
        raise ParamsError("\n  ".join([f"{path}:", *messages])) from None


def check_suitable(test: AnyTest, texts: int, task: Task) -> None:
    """Check that a test suits the data."""
    key = f"evaluate.behaviour, {test.name!r}"
    for problem in _problems(test, texts, task):
        raise ParamsError(f"{key}: {problem}", f"Correct the file; {_DISABLE}")
    if test.change in ("swap_texts", "same_text") and texts != 2:
        raise ParamsError(f"{key}: {test.change} needs rows of two texts.", f"Remove the test; {_DISABLE}")
    for name in ("where", "label", "expect"):
        label = getattr(test, name, None)
        if label is not None and not isinstance(label, ExpectedRange):
            label_id(label, task, f"{key}, {name}")


def label_id(label: Label, task: Task, key: str) -> int:
    """Return the id of a class given by name or id; refuse one that the data does not have."""
    names = task.names or ()
    if isinstance(label, str) and label in names:
        return names.index(label)
    if isinstance(label, int) and 0 <= label < len(names):
        return label
    known = (
        f"Its classes are {', '.join(map(repr, names))}." if names else "It has none: this is a regression."
    )
    raise ParamsError(f"{key}: {label!r} is not a class of the data. {known}", _DISABLE)


def _problems(test: AnyTest, texts: int, task: Task) -> Iterator[str]:
    for template in test.templates or []:
        if len(template) != texts:
            yield f"a template has {len(template)} text(s), a row has {texts}."
        for blank in BLANK.findall(" ".join(template)):
            if blank not in test.fill:
                yield f"fill has no values for {{{blank}}}."
    if _names_class(test) not in (None, task.has_classes):
        yield _CLASS_OR_NUMBER[test.kind]


_CLASS_OR_NUMBER = {
    "direction": "label says whose probability moves: a class, or null for a regression.",
    "minimum_functionality": "expect is a class, or low and high for a regression.",
}
"""What a test has to name, by its kind."""


def _names_class(test: AnyTest) -> bool | None:
    """Return whether a test is about a class; ``None`` if it is about any prediction."""
    if isinstance(test, Direction):
        return test.label is not None
    if isinstance(test, MinimumFunctionality):
        return not isinstance(test.expect, ExpectedRange)
    return None


Texts = tuple[str, ...]


@dataclass(frozen=True)
class LabelledTexts:
    """The one or two texts of each row of the reported split, and its labels."""

    raw: SplitReader
    columns: tuple[str, ...]
    labels: NDArray[Any]
    task: Task

    @classmethod
    def of(cls, raw: SplitReader, columns: Sequence[str], labels: NDArray[Any], task: Task) -> Self:
        """Check that a raw split has the columns, and as many rows as the tokenized split has labels."""
        known = raw.schema.names
        missing = [name for name in columns if name not in known]
        if missing:
            raise DataError(
                f"{raw.name} has no column {missing[0]!r}; it has {', '.join(known)}.",
                "Check data.text_columns.",
            )
        if raw.rows != len(labels):
            raise DataError(
                f"{raw.name} has {raw.rows} rows, the tokenized split has {len(labels)}.",
                "Run `dvc repro tokenize`.",
            )
        return cls(raw, tuple(columns), labels, task)

    def batches(self) -> Iterator[list[list[str]]]:
        """Yield the texts of all rows in batches, one list for each column."""
        for batch in self.raw.batches(self.columns):
            yield [column.to_pylist() for column in batch.columns]

    def take(self, rows: NDArray[np.int64]) -> list[Texts]:
        """Return the texts of chosen rows, whose numbers ascend."""
        columns = self.raw.take(rows, self.columns).columns
        return list(zip(*(column.to_pylist() for column in columns), strict=True))


_LONG_WORD = re.compile(r"[^\W\d_]{4,}")
_FINAL = re.compile(r"\s*[.!?]+\s*$")
_AUXILIARY = re.compile(
    r"\b(is|are|was|were|will|would|can|could|should|has|have|had|does|do|did|may|might|must)\b(?!\s*n[o']t\b)",
    re.IGNORECASE,
)


@dataclass(frozen=True)
class Case:
    """One row of a test: the changed texts, and the original ones unless the test looks at the changed texts only."""

    before: Texts | None
    after: Texts


def build_cases(test: AnyTest, split: LabelledTexts) -> list[Case]:
    """Return the cases of a test, at most ``test.cases``; rows with nothing to change are skipped."""
    check_suitable(test, len(split.columns), split.task)
    if test.templates is not None:
        filled = [texts for texts in _filled(test) if _changed(test, texts) is not None]
        chosen = [filled[place] for place in spaced(len(filled), test.cases)]
    else:
        rows = _rows_to_change(test, split)
        chosen = split.take(rows[spaced(len(rows), test.cases)])
    after_only = isinstance(test, MinimumFunctionality)
    changes = ((texts, _changed(test, texts)) for texts in chosen)
    return [Case(None if after_only else texts, changed) for texts, changed in changes if changed is not None]


def spaced(count: int, at_most: int) -> list[int]:
    """Return at most ``at_most`` of ``count`` places, evenly spaced, beginning with the first."""
    return [index * count // at_most for index in range(at_most)] if count > at_most else list(range(count))


def _changed(test: AnyTest, texts: Texts) -> Texts | None:
    return texts if test.change is None else apply_change(test.change, texts, test.text)


def _rows_to_change(test: AnyTest, split: LabelledTexts) -> NDArray[np.int64]:
    """Return the numbers of the rows with the label of the test in which there is something to change."""
    label = None if test.where is None else label_id(test.where, split.task, test.name)
    chosen = np.full(len(split.labels), fill_value=True) if label is None else split.labels == label
    if test.change is not None:
        first = 0
        for columns in split.batches():
            for row, texts in enumerate(zip(*columns, strict=True), first):
                chosen[row] = chosen[row] and _changed(test, texts) is not None
            first += len(columns[0])
    return np.flatnonzero(chosen)


def _filled(test: AnyTest) -> Iterator[Texts]:
    for template in test.templates or []:
        blanks = list(dict.fromkeys(BLANK.findall(" ".join(template))))
        for words in itertools.product(*(test.fill[blank] for blank in blanks)):
            given = dict(zip(blanks, words, strict=True))
            yield tuple(_fill(text, given) for text in template)


def _fill(text: str, words: dict[str, str]) -> str:
    filled = BLANK.sub(lambda match: words[match[1]], text)
    return filled[:1].upper() + filled[1:]


def apply_change(change: TextChange, texts: Texts, where: str | None) -> Texts | None:
    """Change the first, the last or all texts of a row, by default those of the change; return ``None`` if there is nothing to change."""
    if change in ("swap_texts", "same_text"):
        changed = texts[::-1] if change == "swap_texts" else texts[:1] * len(texts)
    else:
        editor = _editor(change)
        added = isinstance(change, Append | Prepend) or change == "negate"
        where = where or ("last" if added else "all")
        chosen = {"first": {0}, "last": {len(texts) - 1}, "all": set(range(len(texts)))}[where]
        changed = tuple(editor(text) if index in chosen else text for index, text in enumerate(texts))
    return changed if changed != texts or change == "same_text" else None


def _editor(change: TextChange) -> Callable[[str], str]:
    if isinstance(change, Append):
        return lambda text: f"{text.rstrip()} {change.append}"
    if isinstance(change, Prepend):
        return lambda text: f"{change.prepend} {text.lstrip()}"
    if isinstance(change, Replace):
        words = re.compile(rf"(?<!\w)({'|'.join(map(re.escape, change.replace))})(?!\w)")
        return lambda text: words.sub(lambda match: change.replace[match[1]], text)
    return {
        "typo": typo,
        "lower_case": str.lower,
        "upper_case": str.upper,
        "no_final_punctuation": lambda text: _FINAL.sub("", text),
        "negate": negate,
    }[change]


def typo(text: str) -> str:
    """Swap two neighbouring letters inside one word of four letters or more, chosen by a checksum of the text."""
    checksum = zlib.crc32(text.encode())
    words = [match for match in _LONG_WORD.finditer(text) if match[0].isalpha()]
    inside = (
        place for match in words for place in range(match.start() + 1, match.end() - 2)
    )  # neither first nor last letter
    swappable = [place for place in inside if text[place] != text[place + 1]]
    if not swappable:
        return text
    left = swappable[checksum % len(swappable)]
    return f"{text[:left]}{text[left + 1]}{text[left]}{text[left + 2 :]}"


def negate(text: str) -> str:
    """Insert "not" after the first auxiliary verb that has none."""
    return _AUXILIARY.sub(r"\1 not", text, count=1)


SHOWN = 5
"""Most failed cases in a report."""
EXCERPT = 300
"""Most characters of a text in a report."""

Logits = NDArray[np.float32]
Model = Callable[[Sequence[Texts]], Logits]
"""Returns logits of shape ``(rows, outputs)`` for rows of texts."""


def run_suite(suite: Suite, split: LabelledTexts, model: Model) -> list[BehaviourResult]:
    """Run every test, with one call of the model, and return one result for each."""
    cases = []
    with progress("evaluate: cases of the behaviour tests", len(suite.tests), "tests") as step:
        for test in suite.tests:
            cases.append(build_cases(test, split))
            step.advance(1)
    inputs = [
        texts
        for test_cases in cases
        for case in test_cases
        for texts in (case.before, case.after)
        if texts is not None
    ]
    logits = model(inputs) if inputs else np.empty((0, split.task.outputs), dtype=np.float32)
    results, first = [], 0
    for test, test_cases in zip(suite.tests, cases, strict=True):
        width = 1 if not test_cases or test_cases[0].before is None else 2
        case_logits = logits[first : first + width * len(test_cases)].reshape(
            len(test_cases), width, logits.shape[1]
        )
        first += width * len(test_cases)
        results.append(_result(test, test_cases, case_logits, split.task))
    return results


def passes(test: AnyTest, before: Logits, after: Logits, task: Task) -> NDArray[np.bool_]:
    """Return which cases pass, shape ``(cases,)``, by the logits before the change (not of minimum functionality tests) and after it."""
    if isinstance(test, Invariance):
        return task.same_predictions(before, after, test.tolerance)
    if isinstance(test, Direction):
        moved = _strength(after, test, task) - _strength(before, test, task)
        return np.asarray((moved if test.moves == "up" else -moved) >= -test.tolerance)
    if isinstance(test.expect, ExpectedRange):
        return np.asarray((after[:, 0] >= test.expect.low) & (after[:, 0] <= test.expect.high))
    return np.asarray(after.argmax(axis=1) == label_id(test.expect, task, test.name))


def _strength(logits: Logits, test: Direction, task: Task) -> NDArray[Any]:
    if test.label is None:
        return logits[:, 0]
    return probabilities(logits)[:, label_id(test.label, task, test.name)]


def _result(test: AnyTest, cases: Sequence[Case], logits: Logits, task: Task) -> BehaviourResult:
    right = passes(test, logits[:, 0], logits[:, -1], task) if cases else np.empty(0, dtype=bool)
    count, passed = len(cases), int(right.sum())
    low, high = wilson_interval(passed, count) if count else (0.0, 1.0)
    return BehaviourResult(
        name=test.name,
        kind=test.kind,
        cases=count,
        passed=passed,
        pass_rate=passed / count if count else None,
        low=low,
        high=high,
        min_pass_rate=test.min_pass_rate,
        failures=[
            FailedCase(
                before=(
                    None
                    if cases[index].before is None
                    else _tested(cases[index].before, logits[index][0], task)
                ),
                after=_tested(cases[index].after, logits[index][-1], task),
            )
            for index in np.flatnonzero(~right)[:SHOWN]
        ],
    )


def _tested(texts: Texts, logits: Logits, task: Task) -> TestedTexts:
    (predicted,) = task.predictions(logits[None])
    prediction = task.label_value(predicted)
    return TestedTexts(texts=[text[:EXCERPT] for text in texts], prediction=prediction)


def pass_rates(results: Sequence[BehaviourResult]) -> dict[str, float]:
    """Return the fraction of passed cases of each kind of test, by metric name."""
    rates = {}
    for kind in ("invariance", "direction", "minimum_functionality"):
        of_kind = [result for result in results if result.kind == kind]
        if cases := sum(result.cases for result in of_kind):
            rates[f"{kind}_pass_rate"] = sum(result.passed for result in of_kind) / cases
    return rates


def violations_of(results: Sequence[BehaviourResult]) -> list[str]:
    """Return one message for each test below its ``min_pass_rate``."""
    return [
        f"{result.name}:"
        f" {f'{result.passed} of {result.cases} cases passed' if result.cases else 'no case to test'};"
        f" min_pass_rate is {result.min_pass_rate:g}"
        for result in results
        if result.stops
    ]
