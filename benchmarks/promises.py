"""How often promises about answers are broken, and how many rows they answer, on labelled rows of your own.

The rows are predicted once by a published model. They are then divided at random ``--resplits`` times: some
promise, some choose where the tests start, and the rest are new rows, whose share of wrong answers is held
against the promise. Rows with the same value in ``--group`` stay together, and one of each counts.

    python -m benchmarks.promises ROWS.jsonl --label queue --promising 1000 --choosing 500

It prints for each risk in how many of the resplits a promise was made, the mean share of the new rows that
are answered, the mean share of wrong answers among these, and in how many of all resplits that share is above
the promised one. The new rows are a sample, too: with few of them, a share that is exactly as promised is
exceeded in half of the resplits. So the last column draws the rows that promise from the file with
replacement, and counts how often the share of wrong answers of the whole file is above the promised one: that
is what the promise is about.
"""

import argparse
import json
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tuneline.core.runtime.terminal import progress
from tuneline.judge.decisions import CERTAINTY
from tuneline.judge.decisions.abstention import NoPromiseError, observed_risks, promised_abstention
from tuneline.judge.decisions.evidence import Evidence, JudgedAnswers
from tuneline.judge.decisions.rule import answers_of
from tuneline.serve.text_classifier import TextClassifier

RISKS = (0.01, 0.02, 0.05, 0.1)
OBSERVED_RISK = 0.03
"""Share of wrong answers at which it is printed how many rows are answered."""


def judged_rows(
    model: TextClassifier, rows: list[dict[str, Any]], label: str, rows_at_a_time: int = 256
) -> JudgedAnswers:
    """Return the answers of a model of classes for labelled rows."""
    scores = []
    with progress("predict", len(rows), "rows") as step:
        for start in range(0, len(rows), rows_at_a_time):
            part = rows[start : start + rows_at_a_time]
            texts = [tuple(str(row[name] or "") for name in model.text_columns) for row in part]
            scores.append(model.outputs(model.encode(texts), batch_size=32))
            step.advance(len(part))
    answers = answers_of(model.task, np.concatenate(scores), model.costs)
    names = np.array(model.task.class_names)
    labels = np.array([str(row[label]) for row in rows])
    right = names[answers.labels] == labels
    return JudgedAnswers(answers.labels.astype(np.int32), answers.confidence, right)


def one_of_each(groups: NDArray[np.int64], random: np.random.Generator) -> NDArray[np.int64]:
    """Return one row of each group, drawn by chance, in random order."""
    order = random.permutation(len(groups))
    _, first = np.unique(groups[order], return_index=True)
    return random.permutation(order[first])


def outcome(
    drawn: JudgedAnswers, new: JudgedAnswers, promising: int, risk: float
) -> list[tuple[float, float]]:
    """Return the shares of new rows that are answered, and of wrong answers; nothing without a promise.

    Args:
        drawn: Rows that promise, and then rows that choose.
        new: Rows that the promise is about.
        promising: Number of the rows that promise.
        risk: What is promised.
    """
    evidence = Evidence(drawn.take(np.arange(promising)), drawn.take(np.arange(promising, len(drawn))))
    try:
        abstention = promised_abstention(evidence, risk, CERTAINTY)
    except NoPromiseError:
        return []
    answered = new.confidence > abstention.threshold
    return [(float(answered.mean()), float(1 - new.right[answered].mean()))]


def main() -> None:
    """Predict the rows, resplit them, and print a line for each risk."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("rows", type=Path, help="JSON Lines with the text columns of the model and the label")
    parser.add_argument("--label", required=True)
    parser.add_argument("--group", help="column whose equal values are not independent")
    parser.add_argument("--model", type=Path, default=Path("models/onnx"))
    parser.add_argument("--precision")
    parser.add_argument("--promising", type=int, default=1000)
    parser.add_argument("--choosing", type=int, default=500)
    parser.add_argument("--resplits", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()

    rows = [json.loads(line) for line in given.rows.read_text(encoding="utf-8").splitlines()]
    groups = np.arange(len(rows))
    if given.group:
        _, groups = np.unique([str(row[given.group]) for row in rows], return_inverse=True)
    print(f"{len(rows):,} rows, {len(np.unique(groups)):,} independent")
    print(f"{given.promising:,} rows promise, {given.choosing:,} choose, certainty {CERTAINTY:.0%}")

    model = TextClassifier.load(given.model, given.precision)
    print_promises(judged_rows(model, rows, given.label), groups, given)


def print_promises(judged: JudgedAnswers, groups: NDArray[np.int64], given: argparse.Namespace) -> None:
    """Print what the answers of a model are worth, and a line for each risk."""
    coverage, risk = observed_risks(judged)
    most = coverage[risk <= OBSERVED_RISK].max(initial=0.0)
    print(
        f"{judged.right.mean():.2%} of all answers are right; the surest {most:.1%} are"
        f" {1 - OBSERVED_RISK:.0%} right"
    )
    print(f"{'risk':>6} {'promised':>9} {'answered':>9} {'wrong':>8} {'on new rows':>12} {'in truth':>9}")
    size = given.promising + given.choosing
    for promised_risk in RISKS:
        random = np.random.default_rng(given.seed)
        new_rows = []
        in_truth = []
        for _ in range(given.resplits):
            order = one_of_each(groups, random)
            drawn = order[random.integers(0, len(order), size)]
            new_rows += outcome(
                judged.take(order[:size]), judged.take(order[size:]), given.promising, promised_risk
            )
            in_truth += outcome(judged.take(drawn), judged.take(order), given.promising, promised_risk)
        answered, wrong = np.mean(new_rows, axis=0) if new_rows else (0.0, float("nan"))
        broken = [sum(share > promised_risk for _, share in outcomes) for outcomes in (new_rows, in_truth)]
        print(
            f"{promised_risk:>6.2f} {len(new_rows) / given.resplits:>9.1%} {answered:>9.1%} {wrong:>8.2%}"
            f" {broken[0] / given.resplits:>12.1%} {broken[1] / given.resplits:>9.1%}"
        )


if __name__ == "__main__":
    main()
