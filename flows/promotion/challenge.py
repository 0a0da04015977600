"""``python -m flows.promotion challenge``: a rejected candidate and production on newly labelled rows.

The nights use up the reported split: each looks at the same rows again. Rows that were labelled after both
models were made have been seen by nobody, and may be read as often as more of them arrive. The evidence is an
e-value (``tuneline/gating/discordant_rows.py``): the probability that it ever reaches ``1 / level`` for a
candidate that is no better is at most the level, whenever one stops. So a candidate uses up its level once.

What "labelled since" means is checked as far as it can be known: rows with the texts of any row of the data
of either model are left out. The rest is up to who names the file: all rows that were labelled since, and not
those that suit a model.
"""

import math
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from flows.promotion.production import FetchedModel, fetch_model, push_versions
from flows.promotion.registry import Registry, RegistryError
from flows.runs.pipeline import Pipeline
from tuneline.analysis.clusters import cluster_texts
from tuneline.analysis.text import Keys, same_text_keys
from tuneline.core.tables import read_table, split_files
from tuneline.gating.discordant_rows import Votes, log_e_value
from tuneline.gating.error_budget import NEW_ROWS, ErrorBudget, GateEntry
from tuneline.params.data import FilesParams
from tuneline.paths import RAW, SPLITS
from tuneline.readers.formats import data_input
from tuneline.readers.labelled import LABEL, LabelledColumns, labelled_rows
from tuneline.readers.rows import STOP, BadRows
from tuneline.readers.tables import open_table
from tuneline.repository.git import messages_of
from tuneline.repository.registry import ON_NEW_ROWS, Version, decision_in
from tuneline.runtime.errors import DataError
from tuneline.settings import PromotionPolicy

SIMILARITY = 0.5
"""``validate.near_duplicate_similarity``: of two texts from which on they have one vote together."""
EVIDENCE = (" over ", "McNemar's test", "error budget")
"""Parts of the names of criteria that newly labelled rows can meet in place of the reported split."""


@dataclass(frozen=True)
class NewRowsResult:
    """What newly labelled rows say about a candidate.

    Attributes:
        votes: Clusters of rows that favour one of the models.
        rows: Rows that neither model has seen.
        seen: Rows that were left out, because the data of a model have their texts.
        log_e: Logarithm of the evidence.
        level: Error probability that the candidate may use up; 0: the year's is used up.
        version: The new version, if the candidate was promoted.
    """

    votes: Votes
    rows: int
    seen: int
    log_e: float
    level: float
    version: Version | None = None

    @property
    def is_better(self) -> bool:
        """True if the evidence is enough."""
        return self.level > 0 and self.log_e >= -math.log(self.level)

    def __str__(self) -> str:
        """Return the evidence and what is required, for people."""
        if self.level == 0:
            required = "the year's error probability for new rows is used up"
        else:
            required = f"required: {1 / self.level:,.0f}"
        return (
            f"e-value {math.exp(self.log_e):.3g} ({required}) on {self.rows:,} rows that neither model has"
            f" seen (left out: {self.seen:,}); rows that only one predicts correctly: candidate"
            f" {self.votes.candidate}, production {self.votes.production}"
        )


def challenge(
    pipeline: Pipeline,
    registry: Registry,
    policy: PromotionPolicy,
    commit: str,
    file: Path,
    *,
    label: str,
    push: bool = False,
) -> NewRowsResult:
    """Compare a rejected candidate with production on newly labelled rows; promote it if it is better.

    Under the lock of the registry.

    Args:
        pipeline: Runs programs in the repository.
        registry: Registry of the artifact.
        policy: Conditions of a promotion.
        commit: Commit or branch of the candidate's run.
        file: File of all rows that were labelled since, with the text columns and the label.
        label: Name of its column with the label.
        push: True to push a promotion.

    Raises:
        RegistryError: Nothing is in production, promotions are on hold, or the candidate is in production or
            fails another criterion than the evidence.
        DataError: The file cannot be read, or the models do not predict classes.
    """
    sha = registry.repository.resolve(commit)
    production = _production_to_beat(registry, policy, sha)
    candidate = Version(sha[:12], sha)

    # the rows that neither model has seen
    models = [fetch_model(registry, version, pipeline) for version in (candidate, production)]
    texts = models[0].text_columns
    table = read_labelled_texts(file, texts, label)
    keys = same_text_keys([table[name].combine_chunks() for name in texts])
    is_new = np.ones(len(table), np.bool_)
    for version in (candidate, production):
        is_new &= ~np.isin(keys, _known_texts(pipeline, registry, version, texts))
    new = table.filter(pa.array(is_new))

    # the evidence
    votes = _votes(pipeline, models, new, texts)
    history = registry.gate_log.entries()
    budget = ErrorBudget.of_new_rows(history, time.time(), policy).of_pair(sha, production.name)
    result = NewRowsResult(votes, len(new), len(table) - len(new), log_e_value(votes), budget.level)
    registry.gate_log.append(_entry(result, budget, production, sha))

    # promotion
    if not result.is_better:
        return result
    if push:
        push_versions(pipeline, [candidate])
    message = f"{ON_NEW_ROWS}{production.name} in production): {result}"
    version = registry.promote(sha, policy.stage, message, push=push)
    return replace(result, version=version)


def _production_to_beat(registry: Registry, policy: PromotionPolicy, sha: str) -> Version:
    """Return the version in production, unless newly labelled rows cannot promote the candidate."""
    production = registry.in_stage(policy.stage)
    hold = registry.tags().hold(policy.stage)
    if hold:
        raise RegistryError(hold)
    if production is None:
        raise RegistryError(f"Nothing is in {policy.stage}: the next run is compared with the majority.")
    if production.commit == sha:
        raise RegistryError(f"{sha[:12]} is in {policy.stage}.")

    message = messages_of(registry.repository.root, [sha]).get(sha, "")
    if decision_in(message) != "rejected":
        raise RegistryError(f"{sha[:12]} is no result that the gate has rejected.")
    unmet = []
    for line in message.splitlines():
        if line.startswith("- x ") and not any(part in line.partition(":")[0] for part in EVIDENCE):
            unmet.append(line.removeprefix("- x "))
    if unmet:
        raise RegistryError(f"{sha[:12]} fails criteria that new rows do not decide: {'; '.join(unmet)}")
    return production


def read_labelled_texts(file: Path, texts: Sequence[str], label: str) -> pa.Table:
    """Read texts and labels of a file, with the names that the texts have in it, and ``labels``."""
    columns = LabelledColumns(
        tuple(texts), label, sparse=True, text_option="the model", label_option="--label"
    )
    source = data_input(file, FilesParams())
    with open_table(source) as opened:
        batches = list(labelled_rows(opened, columns, BadRows(str(file), source.unit, STOP)))
    rows = pa.Table.from_batches(batches, columns.schema)
    named = {name: rows[f"text_{index}"] for index, name in enumerate(texts)}
    table = pa.table({**named, "labels": rows[LABEL].cast(pa.string())})
    return table.filter(table["labels"].is_valid())


def _known_texts(pipeline: Pipeline, registry: Registry, version: Version, texts: Sequence[str]) -> Keys:
    """Return the keys of the texts of all raw splits that a model was made with."""
    keys = []
    with tempfile.TemporaryDirectory(dir=registry.repository.state) as temporary:
        folder = Path(temporary) / RAW.name
        message = f"Fetching the data of {version.name}"
        pipeline.get(registry.repository, RAW.as_posix(), version.commit, folder, message)
        for split in SPLITS:
            for path in split_files(folder, split):
                table = read_table(path, list(texts))
                keys.append(same_text_keys([table[name].combine_chunks() for name in texts]))
    return np.concatenate(keys)


def _votes(pipeline: Pipeline, models: Sequence[FetchedModel], new: pa.Table, texts: Sequence[str]) -> Votes:
    """Return the votes of rows, given the models of candidate and production."""
    if len(new) == 0:
        return Votes(0, 0)
    folder = pipeline.programs.cwd / ".dvc" / "tmp"
    rows = folder / "new-rows.parquet"
    pq.write_table(new.select(list(texts)), rows)
    labels = np.array(new["labels"].to_pylist(), dtype=object)
    right = []
    for model in models:
        right.append(_predicted(pipeline, model, rows) == labels)

    # Of similar rows, the first has the vote: rows that come later must not change it.
    clusters = cluster_texts([new[name].combine_chunks() for name in texts], SIMILARITY)
    _, first = np.unique(clusters, return_index=True)
    return Votes.of(right[0][first], right[1][first])


def _predicted(pipeline: Pipeline, model: FetchedModel, rows: Path) -> NDArray[Any]:
    """Return the class names that a model predicts for a file.

    Raises:
        DataError: It predicts no classes.
    """
    target = rows.with_name(f"{model.version.name}-new-rows.parquet")
    command = ["tuneline", "predict", str(rows), "--model", str(model.folder), "--output", str(target)]
    pipeline.programs.run(
        [*command, "--bad-rows", "stop", "--plain"], f"Predicting with {model.version.name}", pipeline.on_line
    )
    predictions = read_table(target)
    if "label" not in predictions.column_names:
        raise DataError(
            f"{model.version.name} does not predict one class for each row.",
            "New rows decide where accuracy does.",
        )
    return np.array(predictions["label"].to_pylist(), dtype=object)


def _entry(result: NewRowsResult, budget: ErrorBudget, production: Version, sha: str) -> GateEntry:
    """Return what the history keeps of a reading of new rows."""
    difference = (result.votes.candidate - result.votes.production) / max(result.rows, 1)
    return GateEntry(
        time=time.time(),
        split=NEW_ROWS,
        rows_hash=NEW_ROWS,
        rows=result.rows,
        independent=result.rows,
        candidate=sha,
        production=production.name,
        number=budget.number,
        level=budget.cost,
        spent=budget.spent + budget.cost,
        left=max(budget.left - budget.cost, 0.0),
        discordant=result.votes.discordant,
        difference=difference,
        outcome="promoted" if result.is_better else "rejected",
        commit=sha,
    )
