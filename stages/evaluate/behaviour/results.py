"""Results of behaviour tests: pass rates with intervals, and examples of failed cases."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from stages.evaluate.behaviour.cases import Case, SplitTexts, Texts, build_cases
from stages.evaluate.behaviour.suite import AnyTest, Direction, Invariance, Range, Suite, label_id
from tuneline.curves import probabilities
from tuneline.files import DIGITS
from tuneline.files.schemas import LabelSchema
from tuneline.stats import wilson_interval

SHOWN = 5
"""Most failed cases in a report."""
EXCERPT = 300
"""Most characters of a text in a report."""

Logits = NDArray[np.float32]
Model = Callable[[Sequence[Texts]], Logits]
"""Returns logits of shape ``(rows, outputs)`` for rows of texts."""


def run_suite(suite: Suite, split: SplitTexts, model: Model) -> list[dict[str, Any]]:
    """Run every test, with one call of the model.

    Args:
        suite: The tests.
        split: Texts and labels of the reported split.
        model: The model to test.

    Returns:
        One entry for each test, for ``reports/behaviour.json``.

    Raises:
        ParamsError: A test does not suit the data.
    """
    cases = [build_cases(test, split) for test in suite.tests]
    inputs = [texts for test_cases in cases for case in test_cases for texts in (case.before, case.after) if texts is not None]
    logits = model(inputs) if inputs else np.empty((0, split.label_schema.outputs), dtype=np.float32)
    entries, first = [], 0
    for test, test_cases in zip(suite.tests, cases, strict=True):
        width = 1 if not test_cases or test_cases[0].before is None else 2
        case_logits = logits[first : first + width * len(test_cases)].reshape(len(test_cases), width, logits.shape[1])
        first += width * len(test_cases)
        entries.append(_entry(test, test_cases, case_logits, split.label_schema))
    return entries


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


def _entry(test: AnyTest, cases: Sequence[Case], logits: Logits, label_schema: LabelSchema) -> dict[str, Any]:
    right = passes(test, logits[:, 0], logits[:, -1], label_schema) if cases else np.empty(0, dtype=bool)
    count, passed = len(cases), int(right.sum())
    low, high = wilson_interval(passed, count) if count else (0.0, 1.0)
    return {
        "name": test.name,
        "kind": test.kind,
        "cases": count,
        "passed": passed,
        "pass_rate": round(passed / count, DIGITS) if count else None,
        "low": round(low, DIGITS),
        "high": round(high, DIGITS),
        "min_pass_rate": test.min_pass_rate,
        "failures": [_failure(cases[index], logits[index], label_schema) for index in np.flatnonzero(~right)[:SHOWN]],
    }


def _failure(case: Case, logits: Logits, label_schema: LabelSchema) -> dict[str, Any]:
    shown = [] if case.before is None else [("before", case.before)]
    shown.append(("after", case.after))
    return {
        name: {"texts": [text[:EXCERPT] for text in texts], "prediction": _prediction(row, label_schema)}
        for (name, texts), row in zip(shown, logits, strict=True)
    }


def _prediction(logits: NDArray[np.float32], label_schema: LabelSchema) -> str | float:
    return round(float(logits[0]), DIGITS) if label_schema.names is None else label_schema.names[int(logits.argmax())]


def pass_rates(entries: Sequence[dict[str, Any]]) -> dict[str, float]:
    """Return the fraction of passed cases of each kind of test, by metric name."""
    rates = {}
    for kind in ("invariance", "direction", "minimum_functionality"):
        of_kind = [entry for entry in entries if entry["kind"] == kind]
        if cases := sum(entry["cases"] for entry in of_kind):
            rates[f"{kind}_pass_rate"] = sum(entry["passed"] for entry in of_kind) / cases
    return rates


def violations_of(entries: Sequence[dict[str, Any]]) -> list[str]:
    """Return one message for each test below its ``min_pass_rate``."""
    messages = []
    for entry in entries:
        required, rate = entry["min_pass_rate"], entry["pass_rate"]
        if required is not None and rate is None:
            messages.append(f"{entry['name']}: no case to test; min_pass_rate is {required:g}")
        elif required is not None and rate < required:
            messages.append(f"{entry['name']}: {entry['passed']} of {entry['cases']} cases passed; min_pass_rate is {required:g}")
    return messages
