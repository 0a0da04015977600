"""What the model made of the cases: pass rates, and some of the cases that failed."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from stages.evaluate.behaviour.cases import Case, Rows, build_cases
from stages.evaluate.behaviour.changes import Texts
from stages.evaluate.behaviour.suitability import label_id
from stages.evaluate.behaviour.suite import AnyTest, Direction, Invariance, Range, Suite
from tuneline.curves import probabilities
from tuneline.files.atomic import DIGITS
from tuneline.files.schemas import LabelSchema
from tuneline.stats import wilson_interval

SHOWN = 5
"""Failed cases that a report names."""
EXCERPT = 300
"""Characters of a text that a report shows."""

Logits = NDArray[np.float32]
Model = Callable[[Sequence[Texts]], Logits]
"""Gives logits of shape ``[rows, outputs]`` for some rows of texts."""


def run_suite(suite: Suite, rows: Rows, model: Model) -> list[dict[str, Any]]:
    """Runs every test; the model is asked once.

    Args:
        suite: The tests.
        rows: The reported split.
        model: What is tested.

    Returns:
        One entry for each test, for ``reports/behaviour.json``.

    Raises:
        ParamsError: A test does not suit the data.
    """
    cases = [build_cases(test, rows) for test in suite.tests]
    asked = [texts for some in cases for case in some for texts in (case.before, case.after) if texts is not None]
    logits = model(asked) if asked else np.empty((0, rows.label_schema.outputs), dtype=np.float32)
    entries, first = [], 0
    for test, some in zip(suite.tests, cases, strict=True):
        width = 1 if not some or some[0].before is None else 2
        answers = logits[first : first + width * len(some)].reshape(len(some), width, logits.shape[1])
        first += width * len(some)
        entries.append(_entry(test, some, answers, rows.label_schema))
    return entries


def passes(test: AnyTest, before: Logits, after: Logits, label_schema: LabelSchema) -> NDArray[np.bool_]:
    """Which cases pass.

    Args:
        test: What is expected.
        before: Logits of the texts as they were, of shape ``[cases, outputs]``; those of ``after`` where only they are judged.
        after: Logits of the changed texts.
        label_schema: What the outputs mean.
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


def _entry(test: AnyTest, cases: Sequence[Case], answers: Logits, label_schema: LabelSchema) -> dict[str, Any]:
    right = passes(test, answers[:, 0], answers[:, -1], label_schema) if cases else np.empty(0, dtype=bool)
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
        "failures": [_failure(cases[index], answers[index], label_schema) for index in np.flatnonzero(~right)[:SHOWN]],
    }


def _failure(case: Case, answers: Logits, label_schema: LabelSchema) -> dict[str, Any]:
    shown = [] if case.before is None else [("before", case.before)]
    shown.append(("after", case.after))
    return {
        name: {"texts": [text[:EXCERPT] for text in texts], "prediction": _said(logits, label_schema)}
        for (name, texts), logits in zip(shown, answers, strict=True)
    }


def _said(logits: NDArray[np.float32], label_schema: LabelSchema) -> str | float:
    return round(float(logits[0]), DIGITS) if label_schema.names is None else label_schema.names[int(logits.argmax())]


def pass_rates(entries: Sequence[dict[str, Any]]) -> dict[str, float]:
    """Metrics: the share of passed cases of each kind of test."""
    rates = {}
    for kind in ("invariance", "direction", "minimum_functionality"):
        some = [entry for entry in entries if entry["kind"] == kind]
        if cases := sum(entry["cases"] for entry in some):
            rates[f"{kind}_pass_rate"] = sum(entry["passed"] for entry in some) / cases
    return rates


def faults(entries: Sequence[dict[str, Any]]) -> list[str]:
    """Tests that passed less often than they must, one sentence each."""
    said = []
    for entry in entries:
        wanted, rate = entry["min_pass_rate"], entry["pass_rate"]
        if wanted is not None and rate is None:
            said.append(f"{entry['name']}: there was no case to test; min_pass_rate is {wanted:g}")
        elif wanted is not None and rate < wanted:
            said.append(f"{entry['name']}: {entry['passed']} of {entry['cases']} cases passed; min_pass_rate is {wanted:g}")
    return said
