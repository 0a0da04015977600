"""Tests of the model's behaviour.

They are as in Ribeiro et al. 2020, "Beyond Accuracy: Behavioral Testing of NLP Models with CheckList".
"""

import itertools
import re
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal, Self

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, ValidationError, model_validator

from tuneline.core.tables import SplitReader
from tuneline.core.yaml_files import read_yaml
from tuneline.evaluation.records import BehaviourResult, FailedCase, TestedTexts
from tuneline.metrics.stats import share_interval
from tuneline.params.loading import describe_problem
from tuneline.params.section import Rate, Section
from tuneline.runtime.errors import DataError, ParamsError
from tuneline.runtime.terminal import progress
from tuneline.tasks import Task
from tuneline.tasks.task import Logits

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

    ``null``: rows of the reported split.
    """
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
    """The prediction does not change; of several labels, none is lost and none is added."""

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
    """A simple case that the model must predict correctly; of several labels, one that it must give."""

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
    """Read ``conf/behaviour/NAME.yaml``.

    Raises:
        ParamsError: If the file is missing, or has missing or invalid keys, which the message names.
    """
    path = FOLDER / f"{name}.yaml"
    if not path.is_file():
        names = sorted(file.stem for file in FOLDER.glob("*.yaml"))
        available = ", ".join(names) or "none"
        raise ParamsError(f"evaluate.behaviour: {path} is missing.", f"Available: {available}. {_DISABLE}")
    try:
        return Suite.model_validate(read_yaml(path))
    except ValidationError as error:
        lines = [f"{path}:"]
        for detail in error.errors():
            if detail["type"] == "extra_forbidden":
                key = ".".join(map(str, detail["loc"]))
                lines.append(f"{key}: unknown key")
            else:
                lines.append(describe_problem(detail))
        raise ParamsError("\n  ".join(lines)) from None


def check_suitable(test: AnyTest, texts: int, task: Task) -> None:
    """Check that a test suits the data."""
    key = f"evaluate.behaviour, {test.name!r}"
    problem = next(_problems(test, texts, task), None)
    if problem is not None:
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
    classes = "It has none: this is a regression."
    if names:
        classes = f"Its classes are {', '.join(map(repr, names))}."
    raise ParamsError(f"{key}: {label!r} is not a class of the data. {classes}", _DISABLE)


def _problems(test: AnyTest, texts: int, task: Task) -> Iterator[str]:
    """Yield what in a test does not suit the texts or the task, as sentences."""
    for template in test.templates or []:
        if len(template) != texts:
            yield f"a template has {len(template)} text(s), a row has {texts}."
        for blank in BLANK.findall(" ".join(template)):
            if blank not in test.fill:
                yield f"fill has no values for {{{blank}}}."
    names_class = _names_class(test)
    if names_class is not None and names_class != task.has_classes:
        yield _CLASS_OR_NUMBER[test.kind]


_CLASS_OR_NUMBER = {
    "direction": "label says whose probability moves: a class, or null for a regression.",
    "minimum_functionality": "expect is a class, or low and high for a regression.",
}
"""What a test has to name, by its kind."""


def _names_class(test: AnyTest) -> bool | None:
    """Return True if a test is about a class, False if about a number; ``None`` if about any prediction."""
    if isinstance(test, Direction):
        return test.label is not None
    if isinstance(test, MinimumFunctionality):
        return not isinstance(test.expect, ExpectedRange)
    return None


RowTexts = tuple[str, ...]


@dataclass(frozen=True)
class LabelledTexts:
    """The one or two texts of each row of the reported split, and its labels.

    Attributes:
        clusters: Cluster of each row, shape ``(rows,)``; ``None``: each row is on its own.
    """

    raw: SplitReader
    columns: tuple[str, ...]
    labels: NDArray[Any]
    task: Task
    clusters: NDArray[Any] | None = None

    @classmethod
    def of(cls, raw: SplitReader, columns: Sequence[str], labels: NDArray[Any], task: Task) -> Self:
        """Check that a raw split has the columns, and as many rows as the tokenized split has labels."""
        raw_columns = raw.schema.names
        for name in columns:
            if name not in raw_columns:
                raise DataError(
                    f"{raw.name} has no column {name!r}; it has {', '.join(raw_columns)}.",
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

    def take(self, rows: NDArray[np.int64]) -> list[RowTexts]:
        """Return the texts of chosen rows, whose numbers ascend."""
        table = self.raw.take(rows, self.columns)
        columns = [column.to_pylist() for column in table.columns]
        return list(zip(*columns, strict=True))


_LONG_WORD = re.compile(r"[^\W\d_]{4,}")
_FINAL = re.compile(r"\s*[.!?]+\s*$")
_AUXILIARY = re.compile(
    r"\b(is|are|was|were|will|would|can|could|should|has|have|had|does|do|did|may|might|must)\b(?!\s*n[o']t\b)",
    re.IGNORECASE,
)


@dataclass(frozen=True)
class Case:
    """One row of a test: its texts before and after the change.

    Attributes:
        before: ``None`` if the test looks at the changed texts only.
        cluster: Cases of the same number are not independent of each other.
    """

    before: RowTexts | None
    after: RowTexts
    cluster: int


def build_cases(test: AnyTest, split: LabelledTexts) -> list[Case]:
    """Return the cases of a test, at most ``test.cases``; rows with nothing to change are skipped."""
    check_suitable(test, len(split.columns), split.task)

    # rows
    if test.templates is not None:
        filled = []
        for texts in _filled(test):
            if _changed(test, texts) is not None:
                filled.append(texts)
        chosen = [filled[index] for index in spaced(len(filled), test.cases)]
        clusters = range(len(chosen))
    else:
        rows = _rows_to_change(test, split)
        rows = rows[spaced(len(rows), test.cases)]
        chosen = split.take(rows)
        clusters = (rows if split.clusters is None else split.clusters[rows]).tolist()

    # changes
    cases = []
    for texts, cluster in zip(chosen, clusters, strict=True):
        changed = _changed(test, texts)
        if changed is None:
            continue
        if isinstance(test, MinimumFunctionality):
            cases.append(Case(None, changed, cluster))
        else:
            cases.append(Case(texts, changed, cluster))
    return cases


def spaced(count: int, at_most: int) -> list[int]:
    """Return at most ``at_most`` of ``count`` indices, evenly spaced, beginning with the first."""
    if count <= at_most:
        return list(range(count))
    return [index * count // at_most for index in range(at_most)]


def _changed(test: AnyTest, texts: RowTexts) -> RowTexts | None:
    """Return the changed texts of a row; ``None`` if there is nothing to change."""
    if test.change is None:
        return texts
    return apply_change(test.change, texts, test.text)


def _rows_to_change(test: AnyTest, split: LabelledTexts) -> NDArray[np.int64]:
    """Return the numbers of the rows with the label of the test in which there is something to change."""
    if test.where is None:
        chosen = np.full(len(split.labels), fill_value=True)
    else:
        chosen = split.task.members(split.labels, label_id(test.where, split.task, test.name))
    if test.change is not None:
        # in batches: the texts of a split may not fit into memory
        first = 0
        for columns in split.batches():
            for row, texts in enumerate(zip(*columns, strict=True), first):
                if chosen[row] and _changed(test, texts) is None:
                    chosen[row] = False
            first += len(columns[0])
    return np.flatnonzero(chosen)


def _filled(test: AnyTest) -> Iterator[RowTexts]:
    """Yield the texts of the templates with every combination of values."""
    for template in test.templates or []:
        # each placeholder once, in the order of the texts: it has the same value wherever it occurs
        blanks = list(dict.fromkeys(BLANK.findall(" ".join(template))))
        values = [test.fill[blank] for blank in blanks]
        for combination in itertools.product(*values):
            words = dict(zip(blanks, combination, strict=True))
            yield tuple(_fill(text, words) for text in template)


def _fill(text: str, words: dict[str, str]) -> str:
    filled = BLANK.sub(lambda match: words[match[1]], text)
    return filled[:1].upper() + filled[1:]


def apply_change(change: TextChange, texts: RowTexts, where: str | None) -> RowTexts | None:
    """Change the first, the last or all texts of a row; return ``None`` if there is nothing to change.

    ``where`` is ``None`` for the texts that the change is usually applied to: the last one for what is added
    or negated, else all.
    """
    if change == "same_text":
        return texts[:1] * len(texts)
    if change == "swap_texts":
        changed = texts[::-1]
    else:
        changed = _edit_texts(change, texts, where)
    if changed == texts:
        return None
    return changed


def _edit_texts(change: TextChange, texts: RowTexts, where: str | None) -> RowTexts:
    """Apply a change of single texts to the first, the last or all texts of a row."""
    if where is None:
        is_added = isinstance(change, Append | Prepend) or change == "negate"
        where = "last" if is_added else "all"
    edit = _editor(change)
    edited = list(texts)
    if where == "first":
        edited[0] = edit(texts[0])
    elif where == "last":
        edited[-1] = edit(texts[-1])
    else:
        edited = list(map(edit, texts))
    return tuple(edited)


def _editor(change: TextChange) -> Callable[[str], str]:
    """Return the function that changes one text."""
    # what is added is separated by one space
    if isinstance(change, Append):
        return lambda text: f"{text.rstrip()} {change.append}"
    if isinstance(change, Prepend):
        return lambda text: f"{change.prepend} {text.lstrip()}"
    if isinstance(change, Replace):
        alternatives = "|".join(map(re.escape, change.replace))
        # not \b: a word may begin or end with punctuation
        words = re.compile(rf"(?<!\w)({alternatives})(?!\w)")
        return lambda text: words.sub(lambda match: change.replace[match[1]], text)
    return _EDITORS[change]


def typo(text: str) -> str:
    """Swap two neighbouring letters inside a word of four letters or more.

    A checksum of the text chooses them, so a text always gets the same typo.
    """
    swappable = []
    for word in _LONG_WORD.finditer(text):
        if not word[0].isalpha():
            continue
        # neither the first nor the last letter
        for index in range(word.start() + 1, word.end() - 2):
            if text[index] != text[index + 1]:
                swappable.append(index)
    if not swappable:
        return text
    checksum = zlib.crc32(text.encode())
    left = swappable[checksum % len(swappable)]
    return f"{text[:left]}{text[left + 1]}{text[left]}{text[left + 2 :]}"


def remove_final_punctuation(text: str) -> str:
    """Remove full stops, exclamation and question marks from the end."""
    return _FINAL.sub("", text)


def negate(text: str) -> str:
    """Insert "not" after the first auxiliary verb that has none."""
    return _AUXILIARY.sub(r"\1 not", text, count=1)


_EDITORS: Mapping[str, Callable[[str], str]] = {
    "typo": typo,
    "lower_case": str.lower,
    "upper_case": str.upper,
    "no_final_punctuation": remove_final_punctuation,
    "negate": negate,
}

SHOWN = 5
"""Most failed cases in a report."""
EXCERPT = 300
"""Most characters of a text in a report."""

Predictor = Callable[[Sequence[RowTexts]], Logits]
"""Returns logits of shape ``(rows, outputs)`` for rows of texts."""


def run_suite(suite: Suite, split: LabelledTexts, model: Predictor) -> list[BehaviourResult]:
    """Run every test, with one call of the model, and return one result for each."""
    cases = []
    with progress("evaluate: cases of the behaviour tests", len(suite.tests), "tests") as step:
        for test in suite.tests:
            cases.append(build_cases(test, split))
            step.advance(1)

    # predictions: of all texts at once, so that batches are full
    inputs: list[RowTexts] = []
    for test_cases in cases:
        for case in test_cases:
            if case.before is not None:
                inputs.append(case.before)
            inputs.append(case.after)
    if inputs:
        logits = model(inputs)
    else:
        logits = np.empty((0, split.task.outputs), dtype=np.float32)

    # results: each test takes its part of the logits
    results = []
    first = 0
    for test, test_cases in zip(suite.tests, cases, strict=True):
        texts_per_case = 2
        if not test_cases or test_cases[0].before is None:
            texts_per_case = 1
        end = first + texts_per_case * len(test_cases)
        case_logits = logits[first:end].reshape(len(test_cases), texts_per_case, logits.shape[1])
        results.append(_result(test, test_cases, case_logits, split.task))
        first = end
    return results


def _unchanged(before: Logits, after: Logits, task: Task, tolerance: float) -> NDArray[np.bool_]:
    """Return for each row whether two predictions are the same, numbers within a tolerance."""
    predicted_before = task.predictions(before)
    predicted_after = task.predictions(after)
    if task.has_classes:
        return ~task.errors(predicted_after, predicted_before)
    return np.asarray(np.abs(predicted_after - predicted_before) <= tolerance)


def passes(test: AnyTest, before: Logits, after: Logits, task: Task) -> NDArray[np.bool_]:
    """Return which cases pass, shape ``(cases,)``, by the logits before and after the change.

    The logits have the shape ``(cases, outputs)``. Minimum functionality tests look only at those after the
    change.
    """
    if isinstance(test, Invariance):
        return _unchanged(before, after, task, test.tolerance)
    if isinstance(test, Direction):
        moved = _strength(after, test, task) - _strength(before, test, task)
        if test.moves == "down":
            moved = -moved
        return np.asarray(moved >= -test.tolerance)
    if isinstance(test.expect, ExpectedRange):
        predicted = after[:, 0]
        return np.asarray((predicted >= test.expect.low) & (predicted <= test.expect.high))
    return task.members(task.predictions(after), label_id(test.expect, task, test.name))


def _strength(logits: Logits, test: Direction, task: Task) -> NDArray[Any]:
    """Return the number or the probability that has to move, shape ``(cases,)``."""
    if test.label is None:
        return logits[:, 0]
    return task.scores(logits)[:, label_id(test.label, task, test.name)]


def _result(test: AnyTest, cases: Sequence[Case], logits: Logits, task: Task) -> BehaviourResult:
    """Return the result of a test from its logits, shape ``(cases, texts per case, outputs)``."""
    passed = 0
    pass_rate = None
    interval = (0.0, 1.0)
    failures = []
    if cases:
        passing = passes(test, logits[:, 0], logits[:, -1], task)
        passed = int(passing.sum())
        pass_rate = passed / len(cases)
        clusters = np.array([case.cluster for case in cases])
        interval = share_interval(passing, clusters)
        for index in np.flatnonzero(~passing)[:SHOWN]:
            failures.append(_failed_case(cases[index], logits[index], task))

    low, high = interval
    return BehaviourResult(
        name=test.name,
        kind=test.kind,
        cases=len(cases),
        passed=passed,
        pass_rate=pass_rate,
        low=low,
        high=high,
        min_pass_rate=test.min_pass_rate,
        failures=failures,
    )


def _failed_case(case: Case, logits: Logits, task: Task) -> FailedCase:
    """Return a case for the report; the logits have the shape ``(texts per case, outputs)``."""
    before = None
    if case.before is not None:
        before = _tested(case.before, logits[0], task)
    return FailedCase(before=before, after=_tested(case.after, logits[-1], task))


def _tested(texts: RowTexts, logits: Logits, task: Task) -> TestedTexts:
    """Return the texts of a case, shortened, with their prediction from logits of shape ``(outputs,)``."""
    (predicted,) = task.predictions(logits[None])
    prediction = task.label_value(predicted)
    return TestedTexts(texts=[text[:EXCERPT] for text in texts], prediction=prediction)


def pass_rates(results: Sequence[BehaviourResult]) -> dict[str, float]:
    """Return the fraction of passed cases of each kind of test, by metric name."""
    rates = {}
    for kind in ("invariance", "direction", "minimum_functionality"):
        cases = 0
        passed = 0
        for result in results:
            if result.kind == kind:
                cases += result.cases
                passed += result.passed
        if cases:  # without one, there is no rate
            rates[f"{kind}_pass_rate"] = passed / cases
    return rates


def violations_of(results: Sequence[BehaviourResult]) -> list[str]:
    """Return one message for each test below its ``min_pass_rate``."""
    violations = []
    for result in results:
        if not result.stops:
            continue
        outcome = "no case to test"
        if result.cases:
            outcome = f"{result.passed} of {result.cases} cases passed"
        violations.append(f"{result.name}: {outcome}; min_pass_rate is {result.min_pass_rate:g}")
    return violations
