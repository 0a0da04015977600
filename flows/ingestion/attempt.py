"""One attempt to bring new rows into a checkout: what the sources gave, its checks, its commit."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from prefect import task

from flows.ingestion import checks
from flows.ingestion.commit import commit, commit_rows
from flows.ingestion.harvest import Harvest, Harvester
from flows.ingestion.hub import Revision
from flows.promotion.registry import Registry
from flows.runs.checkout import Checkout
from flows.runs.pipeline import Pipeline
from flows.runs.repository import Repository
from flows.runs.tasks import UNCACHED
from flows.settings import Settings
from flows.settings.ingest import IngestSource
from tuneline.errors import ParamsError
from tuneline.params.data import DataParams
from tuneline.params.loading import load_params
from tuneline.paths import PARAMS
from tuneline.scored import find_texts


@dataclass
class Change(Harvest):
    """What a run would commit.

    Attributes:
        required: Fewer new rows than this are not committed.
        tracked: Folder of the batches that DVC tracks; ``None`` for a data set of the hub.
        revision: New commit of a data set of the hub.
    """

    required: int = 1
    tracked: Path | None = None
    revision: Revision | None = field(default=None)

    @property
    def names(self) -> str:
        """The names of the sources."""
        return ", ".join(one.source for one in self.entries)

    @property
    def summary(self) -> str:
        """The counts of each source."""
        return "; ".join(f"{one.source}: {one.counts}" + (f", at {one.revision[:12]}" if one.revision else "") for one in self.entries)


@dataclass(frozen=True)
class Attempt:
    """One attempt of a run.

    Attributes:
        repository: The repository.
        settings: Settings of the flows.
        checkout: Checkout of the branch.
        pipeline: The pipeline in it.
    """

    repository: Repository
    settings: Settings
    checkout: Checkout
    pipeline: Pipeline

    def collect(self, sources: Sequence[IngestSource]) -> Change:
        """Bring the new rows of the sources into the checkout.

        Raises:
            ParamsError: The parameters of the branch do not allow it.
            DataError: The data of the branch cannot be read.
        """
        self.pipeline.restore(self.pipeline.graph().sources)
        return collect(self, sources)

    def check(self, change: Change) -> None:
        """Run the data checks.

        Raises:
            RefusedError: They do not pass.
        """
        registry = Registry(self.repository, self.settings.promotion.artifact)
        checks.check(self.pipeline, self.checkout, registry, self.settings, self.pipeline.graph().stages)
        if change.revision:
            change.entries = [change.revision.entry()]

    def commit(self, change: Change, run_id: str, *, push: bool) -> str:
        """Commit the change in the checkout, and return the commit."""
        if change.tracked is None:
            return commit(self.repository, self.checkout, [str(PARAMS)], change.entries, run_id)
        return commit_rows(self.repository, self.checkout, self.pipeline, change.tracked, change.entries, run_id=run_id, push=push)


@task(name="collect", task_run_name="collect", **UNCACHED)
def collect(attempt: Attempt, sources: Sequence[IngestSource]) -> Change:
    """Read the sources."""
    root, settings = attempt.checkout.path, attempt.settings
    data = load_params(root / PARAMS).data
    if any(source.hub for source in sources):
        return _follow_hub(attempt, sources, data)
    texts = partial(find_texts, attempt.repository.root, attempt.repository.root / settings.scoring.outbox)
    log = attempt.pipeline.on_line
    harvester = Harvester(attempt.repository.root, root, data, key=settings.ingest.key, find_texts=texts, log=log)
    tracked = harvester.layout.tracked(root, attempt.repository)
    harvest = harvester.harvest(sources, root / ".dvc" / "tmp" / "ingest")
    return Change(**vars(harvest), required=max(1, settings.ingest.min_rows), tracked=tracked)


def _follow_hub(attempt: Attempt, sources: Sequence[IngestSource], data: DataParams) -> Change:
    if len(sources) > 1:
        raise ParamsError("ingest.sources: a source with hub: true must be the only one.", "data.source is one data set, or files.")
    revision = Revision.find(sources[0], data, attempt.checkout.path)
    entries = [revision.found] if revision else []
    return Change(entries=entries, required=0, revision=revision)
