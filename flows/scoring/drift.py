"""Drift: whether new texts still look like those that the model was trained on.

Three properties are compared with the train split in ``reports/checks/profile.json`` of the model's commit: the lengths of the
texts, the predicted labels, and the share of words that were common in training. Of new texts only counts are kept, so that many
small files add up. The distances are those of the data checks (``tuneline/analysis/drift.py``).
"""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Self

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray
from prefect import get_run_logger, task
from prefect.artifacts import create_markdown_artifact

from flows.alerts import send_if_due
from flows.promotion.production import FetchedModel
from flows.runs.pipeline import UNCACHED
from flows.scoring.inbox import Outbox
from flows.settings import DriftLimits
from tuneline.analysis.drift import Counts, bin_counts, kolmogorov_smirnov, population_stability
from tuneline.analysis.text import VocabularyCounts, normalized, words
from tuneline.reports.checks import Profile


@dataclass(frozen=True)
class RowCounts:
    """Counts of scored rows, in the bins of a profile.

    Attributes:
        labels: Rows in each bin of predicted labels.
        characters: Rows in each bin of text lengths.
        words: Number of words.
        words_known: Number of words that were common in training.
    """

    labels: Counts
    characters: Counts
    words: int
    words_known: int

    @classmethod
    def empty(cls, profile: Profile) -> Self:
        """Return the counts of no rows."""
        train = profile.train
        labels = np.zeros(len(train.labels.counts) if train.labels else 0, dtype=np.int64)
        return cls(labels, np.zeros(len(train.characters.counts), dtype=np.int64), 0, 0)

    @classmethod
    def of(cls, profile: Profile, texts: Sequence[pa.StringArray], predicted: pa.Array) -> Self:
        """Count rows."""
        lengths = np.sum([pc.utf8_length(column).to_numpy(zero_copy_only=False) for column in texts], axis=0)
        total, known = _count_words(profile, texts) if profile.train.words.hashes else (0, 0)
        return cls(_count_labels(profile, predicted), bin_counts(lengths, np.array(profile.train.characters.edges)), total, known)

    @property
    def rows(self) -> int:
        """Number of rows."""
        return int(self.characters.sum())

    def __add__(self, other: "RowCounts") -> "RowCounts":
        """Return the counts of both sets of rows together."""
        total, known = self.words + other.words, self.words_known + other.words_known
        return RowCounts(self.labels + other.labels, self.characters + other.characters, total, known)

    def to_json(self) -> dict[str, Any]:
        """Return the counts as JSON, for the metadata of a scored file."""
        counts = {"labels": self.labels.tolist(), "characters": self.characters.tolist()}
        return {**counts, "words": self.words, "words_known": self.words_known}

    @classmethod
    def from_json(cls, profile: Profile, values: Mapping[str, Any] | None) -> Self | None:
        """Read what ``to_json`` returned; ``None`` if there are no counts in the bins of the profile."""
        if values is None:
            return None
        try:
            labels, characters = (np.array(values[name], dtype=np.int64) for name in ("labels", "characters"))
            counts = cls(labels, characters, int(values["words"]), int(values["words_known"]))
        except (LookupError, TypeError, ValueError, OverflowError):
            return None
        empty = cls.empty(profile)
        return counts if (labels.shape, characters.shape) == (empty.labels.shape, empty.characters.shape) else None


def _count_words(profile: Profile, texts: Sequence[pa.StringArray]) -> tuple[int, int]:
    """Return the number of words, and of those that were common in training."""
    counted = VocabularyCounts.of(words([normalized(column) for column in texts]))
    return counted.total, counted.occurrences(profile.train.words.word_keys)


def _count_labels(profile: Profile, predicted: pa.Array) -> Counts:
    labels = profile.train.labels
    if labels is None:
        return np.zeros(0, dtype=np.int64)
    values: NDArray[Any] = predicted.to_numpy(zero_copy_only=False)
    if profile.labels is not None:
        ids = pc.index_in(predicted, pa.array(profile.labels))
        values = ids.drop_null().to_numpy(zero_copy_only=False)
    return bin_counts(values, np.array(labels.edges))


@dataclass(frozen=True)
class DriftMeasure:
    """Distance of one property from the training data.

    Attributes:
        name: Name of the property and the distance.
        value: The distance.
        p_value: Probability of a distance as large without drift; ``None`` if there is no test.
        limit: Largest distance, or smallest share, that is not drift.
        drifted: True if the value is beyond the limit and significant.
    """

    name: str
    value: float
    p_value: float | None
    limit: float
    drifted: bool


def measure(profile: Profile, counts: RowCounts, limits: DriftLimits) -> list[DriftMeasure]:
    """Compare scored rows with the train split."""
    train = profile.train
    lengths = (counts.characters, np.array(train.characters.counts))
    distances = [
        ("length of texts, PSI", population_stability(*lengths), limits.max_psi),
        ("length of texts, KS", kolmogorov_smirnov(*lengths), limits.max_ks),
    ]
    if train.labels is not None and counts.labels.sum():
        labels = population_stability(counts.labels, np.array(train.labels.counts))
        distances.append(("predicted labels, PSI", labels, limits.max_psi))
    measures = [
        DriftMeasure(name, value, p_value, limit, value > limit and p_value < limits.significance)
        for name, (value, p_value), limit in distances
    ]
    if train.words.known and counts.words:
        share, limit = counts.words_known / counts.words / train.words.known, limits.min_known_words
        measures.append(DriftMeasure("share of common words, of that in training", share, None, limit, share < limit))
    return measures


@task(name="drift", task_run_name="drift", **UNCACHED)
def report_drift(model: FetchedModel, outbox: Outbox, limits: DriftLimits, state: Path) -> str:
    """Compare the last scored rows with the training data, and emit ``tuneline.data.drifted`` if they drifted.

    Returns:
        The result in a few words.
    """
    if model.profile is None:
        return "drift unknown"
    counts = recent_counts(model, outbox, limits.window_rows)
    if counts.rows < limits.min_rows:
        return f"{counts.rows} rows are too few to detect drift"
    measures = measure(model.profile, counts, limits)
    create_markdown_artifact(as_markdown(model, counts, measures), key="drift", description=f"{model.version.name}, {counts.rows} rows")
    for one in measures:
        get_run_logger().info("%s: %.4g (limit %g)%s", one.name, one.value, one.limit, " DRIFTED" if one.drifted else "")
    drifted = [one.name for one in measures if one.drifted]
    if not drifted:
        return "no drift"
    payload = {"version": model.version.name, "rows": counts.rows, "measures": [asdict(one) for one in measures]}
    resource = {"prefect.resource.id": "tuneline.data.inbox", "tuneline.version": model.version.name}
    event: dict[str, Any] = {"event": "tuneline.data.drifted", "resource": resource, "payload": payload}
    send_if_due(state / "drift.json", model.version.name, limits.repeat_hours, **event)
    return f"drifted: {', '.join(drifted)}"


def recent_counts(model: FetchedModel, outbox: Outbox, rows: int) -> RowCounts:
    """Return the counts of at least the last ``rows`` rows that this version scored, in whole files."""
    if model.profile is None:
        raise ValueError(f"{model.version.name} has no profile, so its scored rows were not counted")
    counts = RowCounts.empty(model.profile)
    for record in outbox.latest():
        if record.version == model.version.name and (seen := RowCounts.from_json(model.profile, record.seen)):
            counts += seen
        if counts.rows >= rows:
            break
    return counts


def as_markdown(model: FetchedModel, counts: RowCounts, measures: list[DriftMeasure]) -> str:
    """Return the measures as a table, for Prefect's UI."""
    head = f"# {'The data drifted' if any(one.drifted for one in measures) else 'No drift'}"
    about = f"The last {counts.rows} rows, against the training data of {model.version.name} (`{model.version.commit[:12]}`)."
    rows = [
        f"| {'❌' if one.drifted else '✅'} | {one.name} | {one.value:.4g} | {one.limit:g} | "
        f"{'' if one.p_value is None else f'{one.p_value:.1g}'} |"
        for one in measures
    ]
    return "\n".join([head, "", about, "", "| | measure | value | limit | p-value |", "|---|---|---|---|---|", *rows])
