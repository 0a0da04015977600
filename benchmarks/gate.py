"""How often the promotion gate is wrong in a year, and how often it finds a better model: with real models.

Start: ``python -m benchmarks.gate``. Models are trained on tickets of the sample, and predict 16,000 others:

- ``linear``: TF-IDF with logistic regression, each on another 90 % of the training rows; seconds each.
- ``--networks FOLDER``: the network of the sample pipeline, one for each seed, by the stages of a clone;
  a minute each. Predictions that are in the folder already are not made again.

A year has a split of 1,000 rows, drawn from the 16,000, one model in production, and 365 candidates that are
no better on all 16,000 rows. ``Power`` is a year's first 30 nights with candidates of a training that is two
points better on average. Of the few networks, a candidate takes the answer to each row from one of them, by
chance: so there are as many as a year has nights, and each is as accurate as the networks are on average.
"""

import argparse
import re
import subprocess
import sys
import warnings
from collections.abc import Callable, Sequence
from itertools import islice
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
from numpy.typing import NDArray
from scipy.stats import binom
from tqdm import tqdm

from stages.download.sample import Ticket, split_rows, write_tickets

TICKETS = 160_000
ROWS = 1_000
NIGHTS = 365
SOON = 30
ERROR_RATE = 0.05
TRAIN_ROWS = 8_000
WEAK_ROWS = 4_100
"""Training rows of the linear models that are two points worse."""
WEAK_STEPS, STRONG_STEPS = 690, 1_250
"""Training steps of the networks."""
Right = NDArray[np.bool_]
"""Which rows are predicted correctly, shape ``(models, rows)``."""
Rule = Callable[[int, NDArray[np.int64], NDArray[np.int64]], NDArray[np.bool_]]
"""From a number of nights, and the wins and losses of each night's candidate, to the nights that promote."""


def linear_models(rows: int, number: int) -> Right:
    """Train linear models, and say which of the held-out tickets each gets right."""
    from sklearn.feature_extraction.text import TfidfVectorizer
    from sklearn.linear_model import LogisticRegression

    warnings.simplefilter("ignore")  # few iterations are enough here
    tickets = list(write_tickets(TICKETS, 0.03, 42))
    numbers = split_rows(TICKETS)
    train = [tickets[row] for row in islice(numbers["train"], TRAIN_ROWS)]
    test = [tickets[row] for row in numbers["test"]]
    vectorizer = TfidfVectorizer(ngram_range=(1, 2), min_df=2, sublinear_tf=True)
    vectors = vectorizer.fit_transform(map(_text, train))
    held_out = vectorizer.transform(map(_text, test))
    labels = np.array([ticket.queue for ticket in train])
    queues = np.array([ticket.queue for ticket in test])

    right = []
    for seed in tqdm(range(number), f"linear models of {rows} rows"):
        drawn = np.random.default_rng(seed).choice(rows, int(0.9 * rows), replace=False)
        model = LogisticRegression(C=10, max_iter=40).fit(vectors[drawn], labels[drawn])
        right.append(model.predict(held_out) == queues)
    return np.array(right)


def _text(ticket: Ticket) -> str:
    return f"{ticket.subject} . {ticket.body}"


def networks(folder: Path, steps: int, seeds: int) -> Right:
    """Train networks by the stages of a clone, unless their predictions are in the folder."""
    clone = folder / "clone"
    if not clone.exists():
        _prepare(clone)
    right = []
    for seed in tqdm(range(1, seeds + 1), f"networks of {steps} steps"):
        path = folder / f"{steps}-{seed}.npz"
        if not path.exists():
            _train(clone, steps, seed)
            _predict(clone, path)
        predictions = np.load(path)
        right.append(predictions["predicted"] == predictions["labels"])
    return np.array(right)


def _prepare(clone: Path) -> None:
    """Make the data once: 8,000 rows to train on, and many to compare on."""
    subprocess.run(["git", "clone", "--quiet", ".", clone], check=True)
    params = (clone / "params.yaml").read_text()
    params = params.replace("train: train,", "train: 'train[:8000]',")
    params = params.replace("validation: validation,", "validation: 'validation[:1000]',")
    params = params.replace("sample: {rows: 10000,", f"sample: {{rows: {TICKETS},")
    (clone / "params.yaml").write_text(params)
    for stage in ("base", "download", "tokenize", "validate"):
        subprocess.run([sys.executable, "-m", f"stages.{stage}"], cwd=clone, check=True)


def _train(clone: Path, steps: int, seed: int) -> None:
    params = (clone / "params.yaml").read_text()
    params = re.sub(r"\n  seed: \S+", f"\n  seed: {seed}", params)
    params = re.sub(r"\n  epochs: \S+", "\n  epochs: null", params)
    params = re.sub(r"\n  max_steps: \S+", f"\n  max_steps: {steps}", params)
    (clone / "params.yaml").write_text(params)
    subprocess.run([sys.executable, "-m", "stages.train"], cwd=clone, check=True, capture_output=True)


def _predict(clone: Path, path: Path) -> None:
    """Predict the held-out rows, the shortest first."""
    import torch
    from transformers import AutoModelForSequenceClassification

    model = AutoModelForSequenceClassification.from_pretrained(clone / "models/classifier").eval()
    table = pq.read_table(clone / "data/tokenized/test.parquet")
    columns = {name: table[name].to_pylist() for name in ("input_ids", "token_type_ids", "attention_mask")}
    lengths = np.array([len(ids) for ids in columns["input_ids"]])
    order = np.argsort(lengths)
    predicted = np.zeros(len(order), np.int64)
    for rows in np.array_split(order, len(order) // 128):
        batch = {}
        for name, values in columns.items():
            parts = [torch.tensor(values[row]) for row in rows]
            batch[name] = torch.nn.utils.rnn.pad_sequence(parts, batch_first=True)
        with torch.no_grad():
            predicted[rows] = model(**batch).logits.argmax(1).numpy()
    np.savez(path, predicted=predicted, labels=table["labels"].to_numpy())


def p_values(wins: NDArray[np.int64], losses: NDArray[np.int64]) -> NDArray[np.float64]:
    """Return the exact one-sided p-values."""
    tails: NDArray[np.float64] = binom.sf(wins - 1, wins + losses, 0.5)
    return tails


def at_level(level: float) -> Rule:
    """Return the rule that tests every candidate at one level."""
    return lambda _nights, wins, losses: p_values(wins, losses) <= level


def spending(nights: int, wins: NDArray[np.int64], losses: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Spend most of the error probability early: in night t, a part of 6 / (pi t)^2."""
    numbers = np.arange(1, nights + 1)
    return p_values(wins, losses) <= ERROR_RATE * 6 / (np.pi * numbers) ** 2


def ladder(_nights: int, wins: NDArray[np.int64], losses: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Promote by the Ladder without a parameter: the gain is above one standard error (arXiv:1502.04585)."""
    error = np.sqrt(wins + losses - (wins - losses) ** 2 / ROWS)
    return wins - losses > error


RULES: dict[str, Rule] = {
    "today: McNemar, 5 %, two-sided": at_level(0.025),
    "the Ladder without a parameter": ladder,
    "spent early: 6 / (pi t)^2 of 5 %": spending,
    "equal parts: 5 % / 365": at_level(ERROR_RATE / NIGHTS),
}


def night_votes(
    draw: np.random.Generator, production: Right, candidates: Right, nights: int, *, mixed: bool
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return wins and losses of each night's candidate on the rows of one split.

    ``production`` has the shape ``(rows,)``. With ``mixed``, a candidate takes each row from another model.
    """
    rows = draw.integers(candidates.shape[1], size=ROWS)
    if mixed:
        chosen = draw.integers(len(candidates), size=(nights, ROWS))
        right = candidates[chosen, rows]
    else:
        right = candidates[draw.choice(len(candidates), nights, replace=nights > len(candidates))][:, rows]
    other = production[rows]
    return (right & ~other).sum(axis=1), (~right & other).sum(axis=1)


def show(name: str, weak: Right, strong: Right, years: int, *, mixed: bool) -> None:
    """Print what the rules do with models of two trainings."""
    gap = strong.mean() - weak.mean()
    discordant = np.mean([weak[index] != strong[index] for index in range(min(len(weak), len(strong)))])
    print(f"\n{name}: accuracy {weak.mean():.4f} and {strong.mean():.4f}, {100 * gap:.2f} points apart")
    same = np.mean(strong[0] != strong[1:])
    print(f"discordant rows: {same:.1%} of one training, {discordant:.1%} of both")

    draw = np.random.default_rng(0)
    wrong = dict.fromkeys(RULES, 0)
    found = dict.fromkeys(RULES, 0)
    pool = strong if len(strong) > len(weak) else weak
    accuracies = pool.mean(axis=1)
    eligible = np.argsort(accuracies)[len(pool) // 4 :]
    for _ in tqdm(range(years), "years"):
        production = draw.choice(eligible)
        is_other = np.arange(len(pool)) != production
        no_better = np.flatnonzero((accuracies <= accuracies[production]) & is_other)
        votes = night_votes(draw, pool[production], pool[no_better], NIGHTS, mixed=mixed)
        for rule, promotes in RULES.items():
            wrong[rule] += bool(promotes(NIGHTS, *votes).any())

        votes = night_votes(draw, weak[draw.integers(len(weak))], strong, SOON, mixed=mixed)
        for rule, promotes in RULES.items():
            found[rule] += bool(promotes(SOON, *votes).any())
    for rule in RULES:
        print(f"{rule:36} wrong in {wrong[rule] / years:6.1%} of the years, power {found[rule] / years:6.1%}")
    show_power(draw, weak, strong, years, mixed=mixed)


def show_power(draw: np.random.Generator, weak: Right, strong: Right, years: int, *, mixed: bool) -> None:
    """Print what it takes to find the better training in 30 nights in four of five years."""
    global ROWS  # noqa: PLW0603 - a benchmark
    before = ROWS
    for ROWS in (1_000, 1_500, 2_000, 3_000):
        found = 0
        for _ in range(years):
            votes = night_votes(draw, weak[draw.integers(len(weak))], strong, SOON, mixed=mixed)
            found += bool(RULES["equal parts: 5 % / 365"](SOON, *votes).any())
        print(f"equal parts, {ROWS:5} rows: power {found / years:6.1%}")
    ROWS = before


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--networks", type=Path, help="folder of the clone and of the predictions")
    parser.add_argument("--seeds", type=int, default=10, help="networks of each training")
    parser.add_argument("--years", type=int, default=1000)
    options = parser.parse_args(arguments)
    show("linear", linear_models(WEAK_ROWS, 60), linear_models(TRAIN_ROWS, 150), options.years, mixed=False)
    if options.networks:
        weak = networks(options.networks, WEAK_STEPS, options.seeds)
        strong = networks(options.networks, STRONG_STEPS, options.seeds)
        show("networks", weak, strong, options.years, mixed=True)


if __name__ == "__main__":
    main()
