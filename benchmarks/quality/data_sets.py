"""The data sets: rows to learn from, and fresh rows on which every model is scored.

Pairs and sentences of GLUE are read from ``../shared/data``. Sections and tags of Debian's packages are read
from the lists of ``apt``; one package of a source only, because the others have nearly the same text.
"""

import csv
import random
import subprocess
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Self

import numpy as np

from tuneline.model.tasks import Classification, Multilabel, Regression, Task
from tuneline.model.tasks.task import Labels

GLUE = Path(__file__).resolve().parents[3] / "shared/data"
LISTS = Path("/var/lib/apt/lists")
APT_HELPER = "/usr/lib/apt/apt-helper"
"""Writes a list to standard output, however it is compressed."""
FRESH = 1_600
"""Most fresh rows."""
FEWEST_FRESH = 1_000
"""RTE has 277 rows beside train: some of train become fresh ones."""
FEWEST_VALIDATION = 40
CHARACTERS = 160
"""Longest text of a package."""
SECTIONS = 12
"""Most frequent sections that are classes, where the classes are few."""
FEWEST_OF_SECTION = 12
"""Packages of a section, where all sections are classes."""
FACETS = ("field", "implemented-in", "interface", "use", "works-with")
"""Parts of Debian's vocabulary whose tags say something about the description."""
LABELS = 25
"""The most frequent tags are the labels."""

Row = tuple[tuple[str, ...], str | list[str]]
"""The texts, and the label as a file has it: a class, a number in text, or a list of names."""


class SkippedError(Exception):
    """Something cannot be measured here; the message says why."""


@dataclass(frozen=True)
class Split:
    """Rows as models take them: a list of texts for each column, and labels as the task stores them."""

    rows: Sequence[Row]
    columns: list[list[str]]
    labels: Labels

    @classmethod
    def of(cls, rows: Sequence[Row], task: Task) -> Self:
        """Encode the labels of rows."""
        columns = [list(column) for column in zip(*(texts for texts, _ in rows), strict=True)]
        labels = np.zeros((len(rows), *task.label_shape), task.label_dtype)
        for row, (_, label) in enumerate(rows):
            if isinstance(task, Classification):
                labels[row] = task.names.index(label)
            elif isinstance(task, Regression):
                labels[row] = float(label)
            else:
                labels[row] = [name in label for name in task.names]
        return cls(rows, columns, labels)


@dataclass(frozen=True)
class Sample:
    """Rows to learn from, rows to choose by, and rows that choose nothing."""

    task: Task
    metric: str
    seed: int
    train: Split
    validation: Split
    fresh: Split

    @property
    def is_pair(self) -> bool:
        """True if a row has two texts."""
        return len(self.fresh.columns) == 2


@dataclass(frozen=True)
class DataSet:
    """Rows of one task.

    Attributes:
        task: The task with all of its classes.
        pool: Rows for training and validation.
        fresh: Rows on which all models are scored.
        metrics: Names in the table of metrics; the first one decides.
    """

    task: Task
    pool: Sequence[Row]
    fresh: Sequence[Row]
    metrics: tuple[str, ...]

    def sample(self, rows: int, seed: int) -> Sample:
        """Draw rows of train, and an eighth as many of validation."""
        drawn = rows + max(FEWEST_VALIDATION, rows // 8)
        if drawn > len(self.pool):
            raise SkippedError(f"it has {len(self.pool):,} rows, and {drawn:,} are needed")
        order = np.random.default_rng(seed).permutation(len(self.pool)).tolist()
        chosen = [self.pool[row] for row in order[:drawn]]
        parts = (chosen[:rows], chosen[rows:], self.fresh)
        train, validation, fresh = [Split.of(part, self.task) for part in parts]
        return Sample(self.task, self.metrics[0], seed, train, validation, fresh)


def classes_of(rows: Sequence[Row]) -> Classification:
    """Return the task of rows that have one class each."""
    return Classification(tuple(sorted({label for _, label in rows})))


# GLUE


def glue(
    name: str,
    later: str,
    columns: Sequence[str],
    metric: str = "accuracy",
    header: Sequence[str] | None = None,
) -> DataSet:
    """Return a task of GLUE: the split train, and fresh rows of a later one.

    ``columns`` are the label and the texts; ``header`` is for files without one.
    """
    pool = list(glue_rows(GLUE / name / "train.tsv", columns, header))
    fresh = list(glue_rows(GLUE / name / f"{later}.tsv", columns, header))
    random.Random(1).shuffle(pool)  # noqa: S311 - no secret depends on it
    missing = max(FEWEST_FRESH - len(fresh), 0)
    fresh += pool[:missing]
    pool = pool[missing:]

    task: Task = classes_of(pool)
    if metric == "pearson":
        task = Regression()
    return DataSet(task, pool, fresh[:FRESH], (metric,))


def glue_rows(path: Path, columns: Sequence[str], header: Sequence[str] | None) -> Iterator[Row]:
    """Yield the rows of a file whose quotes are literal."""
    if not path.exists():
        raise SkippedError(f"{path} does not exist")
    with path.open(encoding="utf-8", newline="") as file:
        for fields in csv.DictReader(file, header, delimiter="\t", quoting=csv.QUOTE_NONE):
            label, *texts = (fields[column] for column in columns)
            if None not in (label, *texts):
                yield tuple(texts), label


# packages


def packages(lists: Path, language: str) -> Iterator[tuple[str, dict[str, str]]]:
    """Yield the description in a language, and the fields, of one package of each source, shuffled."""
    descriptions = {}
    for fields in read_lists(lists, f"*_main_i18n_Translation-{language}*"):
        descriptions[fields["Package"]] = fields.get(f"Description-{language}", "")
    by_name = {fields["Package"]: fields for fields in read_lists(lists, "*_main_binary-*_Packages*")}
    names = sorted(by_name)
    random.Random(3).shuffle(names)  # noqa: S311 - no secret depends on it
    seen = set()
    for name in names:
        source = by_name[name].get("Source", name).split()[0]
        if source not in seen and name in descriptions:
            seen.add(source)
            yield " ".join(descriptions[name].split())[:CHARACTERS], by_name[name]


def read_lists(lists: Path, pattern: str) -> Iterator[dict[str, str]]:
    """Yield the paragraphs of lists of packages."""
    files = sorted(lists.glob(pattern))
    if not files:
        raise SkippedError(f"{lists} has no {pattern}; apt-get -o Acquire::Languages=de,en update fetches it")
    for file in files:
        command = [APT_HELPER, "cat-file", str(file)]
        yield from parsed(subprocess.run(command, check=True, capture_output=True, text=True).stdout)


def parsed(text: str) -> Iterator[dict[str, str]]:
    """Yield the fields of each paragraph of a list of packages."""
    for paragraph in text.split("\n\n"):
        fields: dict[str, str] = {}
        name = ""
        for line in paragraph.splitlines():
            if line.startswith((" ", "\t")):  # the value of the line before goes on
                fields[name] += line
            else:
                name, _, value = line.partition(":")
                fields[name] = value.strip()
        if fields:
            yield fields


def sections(lists: Path, language: str = "en", fewest: int | None = None) -> DataSet:
    """Return sections by description: the most frequent ones, or all with at least so many packages."""
    rows = [((text,), fields["Section"]) for text, fields in packages(lists, language)]
    counts = Counter(section for _, section in rows)
    kept = {section for section, count in counts.items() if count >= (fewest or 0)}
    metrics: tuple[str, ...] = ("accuracy", "f1")
    if fewest is None:
        kept = {section for section, _ in counts.most_common(SECTIONS)}
        metrics = ("accuracy",)
    rows = [row for row in rows if row[1] in kept]
    return divided(classes_of(rows), rows, metrics)


def tags(lists: Path) -> DataSet:
    """Return the most frequent tags by description, for packages that have one of them."""
    tagged = [((text,), tags_of(fields)) for text, fields in packages(lists, "en")]
    counts = Counter(tag for _, names in tagged for tag in set(names))
    labels = {tag for tag, _ in counts.most_common(LABELS)}
    rows = []
    for texts, names in tagged:
        kept = sorted(labels.intersection(names))
        if kept:
            rows.append((texts, kept))
    return divided(Multilabel(tuple(sorted(labels))), rows, ("macro_f1",))


def tags_of(fields: dict[str, str]) -> list[str]:
    """Return the tags of a package without their facet; none where it has no field for them."""
    names = []
    for tag in fields.get("Tag", "").split(","):
        facet, _, label = tag.strip().partition("::")
        if facet in FACETS:
            names.append(label.replace(":", "-"))
    return names


def divided(task: Task, rows: Sequence[Row], metrics: tuple[str, ...]) -> DataSet:
    """Take the fresh rows from the start of shuffled ones; of few rows, a quarter."""
    fresh = min(FRESH, max(FEWEST_FRESH, len(rows) // 4))
    return DataSet(task, rows[fresh:], rows[:fresh], metrics)


DATA_SETS: dict[str, Callable[[Path], DataSet]] = {
    "mrpc": lambda _: glue("mrpc", "test", ("Quality", "#1 String", "#2 String")),
    "stsb": lambda _: glue("stsb", "validation", ("score", "sentence1", "sentence2"), "pearson"),
    "rte": lambda _: glue("rte", "validation", ("label", "sentence1", "sentence2")),
    "cola": lambda _: glue(
        "cola",
        "validation",
        ("label", "sentence"),
        "matthews_correlation",
        header=("source", "label", "mark", "sentence"),
    ),
    "sections": sections,
    "uneven": lambda lists: sections(lists, fewest=FEWEST_OF_SECTION),
    "german": lambda lists: sections(lists, "de"),
    "tags": tags,
}
"""Data sets by name, from the folder of apt's lists."""
