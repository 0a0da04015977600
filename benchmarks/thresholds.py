"""How the thresholds of several labels are chosen, against the usual ways, on rows that chose nothing.

``python -m benchmarks.thresholds`` on a Debian machine: data sets are tags, dependencies, suggestions and
recommendations of its packages (``apt-cache dumpavail``), or made, with Zipf frequencies of labels. On each,
logistic regressions on TF-IDF of the train split are the model; validation chooses the thresholds of all ways
but ``simple``, the simple models' own, which are chosen by cross-validation of train.
"""

import argparse
import random
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import cache

import numpy as np
from numpy.typing import NDArray
from rich.console import Console
from rich.table import Table
from scipy.special import expit
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.metrics import precision_recall_curve

from benchmarks.package_tags import FACETS, described, paragraphs
from tuneline.core.params.train import ThresholdParams
from tuneline.judge.metrics.scores import prediction_metrics
from tuneline.model.linear.one_vs_rest import OneVsRest
from tuneline.model.linear.thresholds import choose_thresholds

Floats = NDArray[np.float64]
Sets = NDArray[np.int8]
Labelled = tuple[str, Iterable[str]]
"""A text, and its labels."""
METRICS = ("macro_f1", "micro_f1", "subset_accuracy")
WORDS = 3_000
"""Words of the made texts."""


@dataclass(frozen=True)
class Source:
    """A data set.

    Attributes:
        rows: Texts with their labels, by the seed.
        labels: The most frequent ones are the labels.
        train, validation: Rows of these splits; the others are test rows.
        has_chosen: True if the constants of ``tuneline/model/linear/thresholds.py`` were chosen on it.
    """

    rows: Callable[[int], list[Labelled]]
    labels: int
    train: int
    validation: int
    has_chosen: bool


@cache
def fields_of_packages() -> list[dict[str, str]]:
    """Return the fields of all packages."""
    return list(paragraphs())


def tagged(*facets: str) -> Callable[[int], list[Labelled]]:
    """Return how to read descriptions with the tags of some facets."""

    def rows(_seed: int) -> list[Labelled]:
        read: list[Labelled] = []
        for fields in fields_of_packages():
            if "Tag" in fields:
                tags = re.split(r",\s*", fields["Tag"])
                read.append((described(fields), [tag for tag in tags if tag.partition("::")[0] in facets]))
        return read

    return rows


def related(field: str) -> Callable[[int], list[Labelled]]:
    """Return how to read descriptions with the packages that a field names."""

    def rows(_seed: int) -> list[Labelled]:
        read: list[Labelled] = []
        for fields in fields_of_packages():
            if field in fields:
                names = [re.split(r"[ (:|]", name)[0] for name in re.split(r",\s*", fields[field])]
                read.append((described(fields), names))
        return read

    return rows


def made(labels: int, per_row: float) -> Callable[[int], list[Labelled]]:
    """Return how to make texts whose labels have Zipf frequencies: each has words of its own."""

    def rows(seed: int) -> list[Labelled]:
        generator = np.random.default_rng(seed)
        frequency = 1 / np.arange(1, WORDS + 1)
        own_words = [generator.choice(WORDS, 8, replace=False) for _ in range(labels)]
        share = 1 / np.arange(1, labels + 1)
        share = np.minimum(0.6, share / share.sum() * per_row)
        read: list[Labelled] = []
        for _ in range(8_000):
            present = np.flatnonzero(generator.random(labels) < share)
            words = generator.choice(WORDS, 25, p=frequency / frequency.sum()).tolist()
            for label in present:
                words += generator.choice(own_words[label], generator.integers(1, 4)).tolist()
            read.append((" ".join(f"w{word}" for word in words), [f"label {label}" for label in present]))
        return read

    return rows


TOPICS = (
    "culture",
    "game",
    "hardware",
    "mail",
    "network",
    "office",
    "protocol",
    "science",
    "security",
    "web",
)
SOURCES = {
    "25 tags": Source(tagged(*FACETS), 25, 2800, 600, True),
    "100 tags": Source(tagged(*FACETS, "devel", "protocol", "suite", "uitoolkit"), 100, 1400, 300, True),
    "60 dependencies": Source(related("Depends"), 60, 1400, 300, True),
    "made, 40 labels": Source(made(40, 1.8), 40, 1400, 300, True),
    "made, 81 labels": Source(made(81, 1.5), 81, 1400, 300, True),
    "10 tags": Source(tagged("interface", "use"), 10, 700, 150, False),
    "30 topics": Source(tagged(*TOPICS), 30, 1000, 200, False),
    "50 suggestions": Source(related("Suggests"), 50, 1000, 200, False),
    "30 recommendations": Source(related("Recommends"), 30, 800, 120, False),
    "100 dependencies": Source(related("Depends"), 100, 3000, 600, False),
    "made, 20 labels": Source(made(20, 2.5), 20, 600, 100, False),
}


def texts_and_labels(source: Source, seed: int) -> tuple[list[str], Sets]:
    """Return different texts in random order, and their labels; one in twenty has none."""
    rows = source.rows(seed)
    counts: Counter[str] = Counter()
    for _, names in rows:
        counts.update(set(names))
    labels = [name for name, _ in counts.most_common(source.labels)]

    random.Random(seed).shuffle(rows)  # noqa: S311 - no secret depends on it
    texts: list[str] = []
    sets: list[list[bool]] = []
    without = 0
    for text, names in dict(rows).items():
        present = [label in names for label in labels]
        if not any(present):
            without += 1
            if 20 * without > len(texts):
                continue
        texts.append(text)
        sets.append(present)
    return texts[:10_000], np.array(sets[:10_000], np.int8)


# Ways to choose thresholds, from the logits and labels of validation.


def half(logits: Floats, _labels: Sets) -> Floats:
    """Return 0.5."""
    return np.full(logits.shape[1], 0.5)


def one_threshold(logits: Floats, labels: Sets) -> Floats:
    """Return the threshold with the highest F1 over all decisions."""
    return np.full(logits.shape[1], _highest_f1(expit(logits.ravel()), labels.ravel()))


def of_each_label(logits: Floats, labels: Sets) -> Floats:
    """Return the thresholds with the highest F1 of each label; 0.5 of a label without rows."""
    thresholds = half(logits, labels)
    for label in np.flatnonzero(labels.any(axis=0)):
        thresholds[label] = _highest_f1(expit(logits[:, label]), labels[:, label])
    return thresholds


def _highest_f1(probability: Floats, labels: Sets) -> float:
    precision, recall, lowest = precision_recall_curve(labels, probability)
    f1 = 2 * precision * recall / np.maximum(precision + recall, 1e-12)
    position = len(lowest) - 1 - int(f1[:-1][::-1].argmax())
    below = lowest[position - 1] if position else 0.0
    return float((lowest[position] + below) / 2)


def tuneline(logits: Floats, labels: Sets) -> Floats:
    """Return the thresholds that Tuneline chooses."""
    return choose_thresholds(logits, labels == 1, ThresholdParams())


WAYS = {"0.5": half, "one for all": one_threshold, "of each label": of_each_label, "tuneline": tuneline}


def measure(source: Source, inverse: float, seed: int) -> Iterator[tuple[str, list[float]]]:
    """Yield the metrics of each way on test."""
    texts, labels = texts_and_labels(source, seed)
    vectorizer = TfidfVectorizer(ngram_range=(1, 2), sublinear_tf=True, min_df=2, max_features=20_000)
    train = vectorizer.fit_transform(texts[: source.train]), labels[: source.train]
    features = vectorizer.transform(texts[source.train :])
    validation = labels[source.train :][: source.validation]
    test = labels[source.train + source.validation :]

    model = OneVsRest(inverse, 100, has_thresholds=True).fit(*train)
    logits = model.logits(features)
    predictions = {"simple": model.predict(features[source.validation :])}
    for name, way in WAYS.items():
        thresholds = way(logits[: source.validation], validation)
        predictions[name] = (expit(logits[source.validation :]) > thresholds).astype(np.int8)
    for name, predicted in predictions.items():
        scores = prediction_metrics("multilabel", test, predicted, "macro")
        yield name, [*(scores[metric] for metric in METRICS), float(predicted.sum(axis=1).mean())]


def main() -> None:
    """Print a table: the mean over the seeds, for each data set and regularization."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--inverse", type=float, nargs="+", default=[10.0, 1.0])
    parser.add_argument("--only", nargs="+", choices=SOURCES, default=list(SOURCES))
    arguments = parser.parse_args()

    table = Table("data set", "C", "thresholds", *METRICS, "labels per row")
    for name in arguments.only:
        for inverse in arguments.inverse:
            scores: dict[str, list[list[float]]] = {}
            for seed in range(arguments.seeds):
                for way, values in measure(SOURCES[name], inverse, seed):
                    scores.setdefault(way, []).append(values)
            for way, of_seeds in scores.items():
                means = np.mean(of_seeds, axis=0)
                table.add_row(name, f"{inverse:g}", way, *(f"{value:.3f}" for value in means))
            table.add_section()
    Console(width=140).print(table)


if __name__ == "__main__":
    main()
