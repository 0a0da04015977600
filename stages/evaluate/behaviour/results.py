"""Results of behaviour tests: pass rates with intervals, and examples of failed cases."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from stages.evaluate.behaviour.cases import Case, LabelledTexts, build_cases
from stages.evaluate.behaviour.suite import AnyTest, Direction, Invariance, Range, Suite, label_id
from stages.evaluate.texts import Texts
from tuneline.curves import probabilities
from tuneline.files.schemas import LabelSchema
from tuneline.records.evaluation import BehaviourResult, Failure, TestedTexts
from tuneline.stats import wilson_interval
from tuneline.terminal import progress

SHOWN = 5
"""Most failed cases in a report."""
EXCERPT = 300
"""Most characters of a text in a report."""

Logits = NDArray[np.float32]
Model = Callable[[Sequence[Texts]], Logits]
"""Returns logits of shape ``(rows, outputs)`` for rows of texts."""


def run_suite(suite: Suite, split: LabelledTexts, model: Model) -> list[BehaviourResult]:
    """Run every test, with one call of the model.

    Args:
        suite: The tests.
        split: Texts and labels of the reported split.
        model: The model to test.

    Returns:
        One result for each test.

    Raises:
        ParamsError: A test does not suit the data.
    """
    cases = []
    with progress("evaluate: cases of the behaviour tests", len(suite.tests), "tests") as step:
        for test in suite.tests:
            cases.append(build_cases(test, split))
            step.advance(1)
    inputs = [texts for test_cases in cases for case in test_cases for texts in (case.before, case.after) if texts is not None]
    logits = model(inputs) if inputs else np.empty((0, split.label_schema.outputs), dtype=np.float32)
    results, first = [], 0
    for test, test_cases in zip(suite.tests, cases, strict=True):
        width = 1 if not test_cases or test_cases[0].before is None else 2
        case_logits = logits[first : first + width * len(test_cases)].reshape(len(test_cases), width, logits.shape[1])
        first += width * len(test_cases)
        results.append(_result(test, test_cases, case_logits, split.label_schema))
    return results


def passes(test: AnyTest, before: Logits, after: Logits, label_schema: LabelSchema) -> NDArray[np.bool_]:
    """Return which cases pass, shape ``(cases,)``.

    Args:
        test: The test.
        before: Logits of the original texts, shape ``(cases, outputs)``; not used by minimum functionality tests.
        after: Logits of the changed texts.
        label_schema: Label schema.
    """
    if isinstance(test, Invariance):
        if label_schema.is_regression:
            return np.asarray(np.abs(after[:, 0] - before[:, 0]) <= test.tolerance)
        return np.asarray(after.argmax(axis=1) == before.argmax(axis=1))
    if isinstance(test, Direction):
        moved = _strength(after, test, label_schema) - _strength(before, test, label_schema)
        return np.asarray((moved if test.moves == "up" else -moved) >= -test.tolerance)
    if isinstance(test.expect, Range):
        return np.asarray((after[:, 0] >= test.expect.low) & (after[:, 0] <= test.expect.high))
    return np.asarray(after.argmax(axis=1) == label_id(test.expect, label_schema, test.name))


def _strength(logits: Logits, test: Direction, label_schema: LabelSchema) -> NDArray[Any]:
    if test.label is None:
        return logits[:, 0]
    return probabilities(logits)[:, label_id(test.label, label_schema, test.name)]


def _result(test: AnyTest, cases: Sequence[Case], logits: Logits, label_schema: LabelSchema) -> BehaviourResult:
    right = passes(test, logits[:, 0], logits[:, -1], label_schema) if cases else np.empty(0, dtype=bool)
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
        failures=[_failure(cases[index], logits[index], label_schema) for index in np.flatnonzero(~right)[:SHOWN]],
    )


def _failure(case: Case, logits: Logits, label_schema: LabelSchema) -> Failure:
    before = None if case.before is None else _tested(case.before, logits[0], label_schema)
    return Failure(before=before, after=_tested(case.after, logits[-1], label_schema))


def _tested(texts: Texts, logits: Logits, label_schema: LabelSchema) -> TestedTexts:
    prediction = float(logits[0]) if label_schema.names is None else label_schema.names[int(logits.argmax())]
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
        f"{result.name}: {f'{result.passed} of {result.cases} cases passed' if result.cases else 'no case to test'}; "
        f"min_pass_rate is {result.min_pass_rate:g}"
        for result in results
        if result.stops
    ]
