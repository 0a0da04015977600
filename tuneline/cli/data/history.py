"""``tuneline data history``: what changed from one version of the data to the next, as a page with plots."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from pathlib import Path
from typing import NamedTuple, TypeVar

import numpy as np
from markupsafe import Markup

from tuneline.analysis.drift import Counts, Distance, Distribution, population_stability
from tuneline.core.paths import CHECKS, METRICS, RAW, SPLITS
from tuneline.core.records import Metrics, Record
from tuneline.project.dvc import Lock, cached_out, read_lock
from tuneline.project.repo import Commit, commits, lock_at, metrics_at, registries, task_settings
from tuneline.reports.checks import CheckEntry, Checks, Profile, SplitProfile, WordCounts
from tuneline.reports.page import draw_lines, draw_spark, format_number, template_environment

FETCH = "dvc fetch --all-commits reports/checks"

R = TypeVar("R", bound=Record)
RESULTS = 5
"""Commits of one version whose check results are looked for in the cache."""


@dataclass(frozen=True)
class DataVersion:
    """One version of ``data/raw``.

    Profile, words and check results are ``None`` if they are not in DVC's cache.

    Attributes:
        commit: The commit that added it; ``None`` if it is not committed.
        data: Hash of ``data/raw``.
        names: Its names in the model registry, for example ``onnx@v0.2.0`` and ``onnx#production``.
        metrics: ``metrics/validate.json``.
    """

    commit: Commit | None
    data: str
    names: Sequence[str]
    metrics: Mapping[str, float]
    profile: Profile | None
    words: WordCounts | None
    checks: Checks | None

    @property
    def title(self) -> str:
        """Short hash of the commit."""
        return self.commit.short if self.commit else "not committed"


def read_versions(root: Path, number: int) -> list[DataVersion]:
    """Return the newest versions of the present task, the newest first; older commits are not read."""
    named, task = _names_by_commit(root), task_settings(read_lock(root))
    names: dict[str | None, list[str]] = {}
    for commit, data in _hashes(root, list(named), task):
        names.setdefault(data, []).extend(named[commit])
    listed = {
        commit.sha: commit for commit in commits(root, "--topo-order", "HEAD", *named, "--", "dvc.lock")
    }
    versions: list[DataVersion] = []
    present, is_first = read_lock(root).out(RAW.as_posix()), True
    for md5, group in groupby(_hashes(root, list(listed), task), key=lambda pair: pair[1]):
        if is_first and present not in (None, md5):
            versions.append(_in_working_tree(root, str(present)))
        is_first = False
        if md5 is not None and len(versions) < number:
            versions.append(_read(root, md5, [listed[sha] for sha, _ in group], sorted(names.get(md5, []))))
        if len(versions) >= number:
            break
    return [_in_working_tree(root, present)] if is_first and present else versions


def _names_by_commit(root: Path) -> dict[str, list[str]]:
    """Return the versions of all artifacts, and the stages that they are in now, by commit."""
    names: dict[str, list[str]] = {}
    for artifact, tags in registries(root).items():
        for version in tags.versions:
            names.setdefault(version.commit, []).append(f"{artifact}@{version.name}")
        for stage in tags.stages:
            if present := tags.in_stage(stage):
                names.setdefault(present.commit, []).append(f"{artifact}#{stage}")
    return names


def _hashes(root: Path, shas: Sequence[str], task: list[object] | None) -> Iterator[tuple[str, str | None]]:
    """Yield each commit of a task (``None``: of any) with its hash of ``data/raw``; ``None`` if its ``dvc.lock`` has none."""
    for sha in shas:
        lock = lock_at(root, sha)
        if task is None or task_settings(lock) in (None, task):
            yield sha, lock.out(RAW.as_posix())


def _read(root: Path, data: str, group: Sequence[Commit], names: Sequence[str]) -> DataVersion:
    """Read the version that neighbouring commits share, newest first: the latest results of its checks that the cache has."""
    for commit in group[:RESULTS]:
        lock = lock_at(root, commit.sha)
        if profile := _cached(root, lock, "profile.json", Profile):
            break
    words, checks = _cached(root, lock, "words.json", WordCounts), _cached(root, lock, "checks.json", Checks)
    return DataVersion(
        group[-1], data, names, metrics_at(root, commit.sha, "validate"), profile, words, checks
    )


def _cached(root: Path, lock: Lock, name: str, record: type[R]) -> R | None:
    path = cached_out(root, lock, (CHECKS / name).as_posix())
    return record.read_if_valid(path) if path else None


def _in_working_tree(root: Path, data: str) -> DataVersion:
    checks, metrics = root / CHECKS, Metrics.read_values(root / METRICS / "validate.json")
    profile, words = (
        Profile.read_if_valid(checks / "profile.json"),
        WordCounts.read_if_valid(checks / "words.json"),
    )
    return DataVersion(None, data, [], metrics, profile, words, Checks.read_if_valid(checks / "checks.json"))


EXPECTED = 10
"""A word that is missing counts as new or gone if the other version would have it this often by its frequency: by chance, that happens
to one word in 22,000."""
LARGE, SIGNIFICANT = 0.25, 0.01
"""Population stability index of a large change by convention, and the p-value that a change needs to be marked."""


@dataclass(frozen=True)
class VersionChange:
    """A version of the data, and what differs in train from the one before it.

    What is unknown is ``None`` or empty.

    Attributes:
        classes: Fraction of the rows by class; empty for a regression.
        new_classes, gone_classes: Classes with rows that had none before, or have none now.
        new_words, gone_words: Words that did not occur before, or do not now, the most frequent first.
        new_common: Fraction of the most common words that were not among them before.
    """

    version: DataVersion
    rows: Mapping[str, int]
    rows_before: Mapping[str, int]
    classes: Mapping[str, float] = field(default_factory=dict)
    new_classes: Sequence[str] = ()
    gone_classes: Sequence[str] = ()
    labels: Distance | None = None
    lengths: Distance | None = None
    new_words: Sequence[str] = ()
    gone_words: Sequence[str] = ()
    new_common: float | None = None

    @property
    def characters(self) -> Distribution | None:
        """Lengths of the rows of train in characters."""
        train = _train(self.version.profile)
        return train.characters if train and train.characters.edges else None

    @property
    def failed(self) -> list[CheckEntry] | None:
        """Failed checks, those that stop the pipeline first."""
        checks = self.version.checks
        if checks is None:
            return None
        failures = [result for result in checks.checks if result.status != "passed"]
        return sorted(failures, key=lambda result: not result.stops)

    @property
    def failures(self) -> float | None:
        """Number of failed checks, from the metrics if their results are not in the cache."""
        return len(self.failed) if self.failed is not None else self.version.metrics.get("warnings")


def is_large(distance: Distance | None) -> bool:
    """Return True if a drift is large and significant."""
    return distance is not None and distance.value >= LARGE and distance.p_value <= SIGNIFICANT


def changes_between(version: DataVersion, before: DataVersion | None) -> VersionChange:
    """Compare a version with the one before it."""
    current, former = version.profile, before.profile if before else None
    counts, counts_before = class_rows(current), class_rows(former)
    words, words_before = version.words, before.words if before else None
    is_known = current is not None and former is not None
    return VersionChange(
        version,
        rows_of(version),
        rows_of(before) if before else {},
        classes={name: count / max(sum(counts.values()), 1) for name, count in counts.items()},
        new_classes=(
            [name for name in counts if counts[name] and not counts_before.get(name)] if is_known else []
        ),
        gone_classes=(
            [name for name in counts_before if counts_before[name] and not counts.get(name)]
            if is_known
            else []
        ),
        labels=_label_drift(current, former),
        lengths=_number_drift(
            *(profile.characters if profile else None for profile in (_train(current), _train(former)))
        ),
        new_words=missing_words(words, words_before),
        gone_words=missing_words(words_before, words),
        new_common=_new_common(_train(current), _train(former)),
    )


def _train(profile: Profile | None) -> SplitProfile | None:
    return profile.splits.get("train") if profile else None


def rows_of(version: DataVersion) -> dict[str, int]:
    """Return the rows by split: of the profile, or of the metrics if it is not in the cache."""
    if version.profile:
        return {split: profiled.rows for split, profiled in version.profile.splits.items()}
    return {
        split: int(version.metrics[f"{split}_rows"]) for split in SPLITS if f"{split}_rows" in version.metrics
    }


def class_rows(profile: Profile | None) -> dict[str, int]:
    """Return the rows of train by class; empty for a regression, or without labels."""
    train = _train(profile)
    return (
        dict(zip(profile.labels, train.labels.counts, strict=False))
        if profile and profile.labels and train and train.labels
        else {}
    )


def _label_drift(current: Profile | None, former: Profile | None) -> Distance | None:
    counts, reference = class_rows(current), class_rows(former)
    if counts and reference:
        names = list(dict.fromkeys([*reference, *counts]))
        return population_stability(
            *(np.array([rows.get(name, 0) for name in names]) for rows in (counts, reference))
        )
    if current is None or former is None or not (current.task.ordered and former.task.ordered):
        return None
    return _number_drift(
        *(profile.labels if profile else None for profile in (_train(current), _train(former)))
    )


def _number_drift(current: Distribution | None, former: Distribution | None) -> Distance | None:
    if current is None or former is None or not current.edges or not former.edges:
        return None
    return population_stability(rebinned(current, former.edges), np.array(former.counts))


def rebinned(distribution: Distribution, edges: Sequence[float]) -> Counts:
    """Return the rows in other bins; rows within a bin are taken as evenly spread."""
    below = np.cumsum(distribution.counts)[:-1]
    total = sum(distribution.counts)
    cumulative = np.rint(np.interp(edges, distribution.edges, below, left=0, right=total)).astype(np.int64)
    counts: Counts = np.diff(cumulative, prepend=0, append=total)
    return counts


def missing_words(words: WordCounts | None, other: WordCounts | None) -> list[str]:
    """Return the words that another version lacks although it would have ``EXPECTED`` of them by their frequency, the most frequent first.

    A list that was cut off lacks rare words that the data has. So the rarest listed word is what counts as
    absent.
    """
    if words is None or other is None or not words.total:
        return []
    is_cut = len(other.counts) < other.different
    least = EXPECTED * (min(other.counts.values(), default=1) if is_cut else 1)
    return [
        word
        for word, count in words.counts.items()
        if word not in other.counts and count * other.total / words.total >= least
    ]


def _new_common(current: SplitProfile | None, former: SplitProfile | None) -> float | None:
    hashes, known = current.words.hashes if current else (), set(former.words.hashes) if former else set()
    return sum(one not in known for one in hashes) / len(hashes) if hashes and known else None


TEMPLATES = Path(__file__).parent / "templates"
MAX_CLASSES = 12
"""Classes that are drawn, the most frequent of the newest version."""


class ClassPlot(NamedTuple):
    """A class, with its percentage in the first and in the newest version that is known."""

    name: str
    svg: Markup
    first: float
    newest: float


def render_history(changes: Sequence[VersionChange], *, more: bool) -> str:
    """Return the page as HTML, with the newest version first.

    Everything that comes from the data is escaped.
    """
    templates = template_environment(TEMPLATES)
    templates.filters["number"] = format_number
    templates.tests["large"] = is_large
    return templates.get_template("history.html.j2").render(
        changes=changes,
        more=more,
        splits=[split for split in SPLITS if any(split in change.rows for change in changes)],
        missing=[change for change in changes if change.version.profile is None],
        plots=draw_plots(list(reversed(changes))),
        classes=draw_classes(list(reversed(changes))),
    )


def draw_plots(changes: Sequence[VersionChange]) -> list[tuple[str, str, Markup]]:
    """Draw what changed over the versions, the oldest first: title, unit or explanation, figure."""
    ends = [changes[0].version.title, changes[-1].version.title][: len(changes)]
    lengths = {"median": 0.5, "longest 20th": 0.95, "shortest 20th": 0.05}
    percent = [None if change.new_common is None else 100 * change.new_common for change in changes]
    words = [change.version.words.different if change.version.words else None for change in changes]
    drifts = {
        "labels": [change.labels.value if change.labels else None for change in changes],
        "lengths": [change.lengths.value if change.lengths else None for change in changes],
    }
    planned: list[tuple[str, str, Mapping[str, Sequence[float | None]]]] = [
        ("Rows", "by split", {split: [change.rows.get(split) for change in changes] for split in SPLITS}),
        (
            "Length",
            "characters of a row of train",
            {name: [_length(one, at) for one in changes] for name, at in lengths.items()},
        ),
        ("Drift", "population stability index of train against the version before", drifts),
        ("Different words", "in train", {"words": words}),
        (
            "New common words",
            "percent of the 500 most common words of train that were not common before",
            {"words": percent},
        ),
        ("Failed checks", "errors and warnings", {"checks": [change.failures for change in changes]}),
    ]
    drawn = []
    for index, (title, unit, series) in enumerate(planned):
        known = {
            name: values for name, values in series.items() if any(value is not None for value in values)
        }
        if known:
            limits = {f"large: {LARGE}": LARGE} if title == "Drift" else {}
            drawn.append((title, unit, draw_lines(f"plot{index}", title, known, ends, limits)))
    return drawn


def _length(change: VersionChange, level: float) -> float | None:
    return change.characters.quantile(level) if change.characters else None


def draw_classes(changes: Sequence[VersionChange]) -> list[ClassPlot]:
    """Draw the percentage of each class in train over the versions, the oldest first; on one scale, so that classes can be compared."""
    newest = next((change.classes for change in reversed(changes) if change.classes), {})
    names = sorted(
        {name for change in changes for name in change.classes}, key=lambda name: (-newest.get(name, 0), name)
    )[:MAX_CLASSES]
    known = [change.classes for change in changes if change.classes]
    top = max((100 * classes.get(name, 0.0) for classes in known for name in names), default=0.0)
    drawn = []
    for index, name in enumerate(names):
        values = [100 * change.classes.get(name, 0.0) if change.classes else None for change in changes]
        ends = (100 * classes.get(name, 0.0) for classes in (known[0], known[-1]))
        drawn.append(ClassPlot(name, draw_spark(f"class{index}", name, values, top), *ends))
    return drawn
