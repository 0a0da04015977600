"""Settings of the flows, from ``conf/flows.yaml``, which says beside each default what it means.

The parameters of the pipeline are in ``params.yaml``, which stages read.
"""

import os
import shlex
from pathlib import Path
from typing import Annotated, Literal, Self
from urllib.parse import urlsplit

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from tuneline.core.errors import ParamsError
from tuneline.core.yaml_files import read_yaml
from tuneline.readers.files import ADDRESSES
from tuneline.readers.rows import DEFAULT_LIMITS, MAX_SHARE, MB
from tuneline.reports.drift import DriftLimits

Count = Annotated[int, Field(ge=0)]
Seconds = Annotated[float, Field(ge=0)]


class SettingsSection(BaseModel):
    """One section: frozen; unknown keys are errors."""

    model_config = ConfigDict(frozen=True, extra="forbid")


Limit = Annotated[float, Field(gt=0)] | None


class Alerts(SettingsSection):
    """Limits beyond which flow ``watch`` sends an alert; ``None`` for no alert."""

    runs_silent_hours: Limit = 36
    production_old_days: Limit = 60
    scoring_behind_hours: Limit = 3
    ingest_behind_hours: Limit = 36
    branch_hours: Limit = 1
    one_copy_hours: Limit = 1
    disk_full_days: Limit = 14
    repeat_hours: Annotated[float, Field(ge=0)] = 24


class GitHost(SettingsSection):
    """Retries of what talks to a git remote."""

    retry_delay_seconds: list[Seconds] = [2, 5, 15, 30, 60]


Name = Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9-]{0,39}$")]
Variable = Annotated[str, Field(pattern=r"^[A-Za-z_][A-Za-z0-9_]*$")]
Ref = Annotated[str, Field(pattern=r"^[^-\s][^\s]*$")]
SOURCE_KINDS = ("folder", "url", "query", "hub")


class IngestSource(SettingsSection):
    """A source of new labelled rows: one of a drop folder, a URL, a database query, or a branch of the hub.

    Attributes:
        name: Part of the names of its batch files.
        folder: Drop folder, relative to the repository. Files that were ingested are moved to its folder
            ``done/``.
        settle_seconds: folder: seconds since its last change before a file is read.
        url: Address of a file for fsspec, or a pattern with ``*``.
        options: url: storage options, each by the name of the environment variable that has its value.
        query: SQL file, relative to the repository. The connection is read-only.
        database: query: environment variable with the SQLAlchemy URL of the database.
        watermark: query: column whose largest value is the parameter ``:since`` of the next run.
        since: query: value of ``:since`` in the first run.
        hub: Follow ``revision`` of the data set that ``data.path`` names.
        revision: hub: branch or tag.
        id: Column of an id. A file or query with it and without the text columns has late labels of scored
            texts.
    """

    name: Name
    folder: Path | None = None
    settle_seconds: Seconds = 10
    url: str | None = None
    options: dict[str, Variable] = {}
    query: Path | None = None
    database: Variable | None = None
    watermark: str | None = None
    since: str | int | None = None
    hub: bool = False
    revision: str = "main"
    id: str | None = None

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        kinds = [kind for kind in SOURCE_KINDS if getattr(self, kind)]
        if len(kinds) != 1:
            raise ValueError(
                f"{self.name}: must have exactly one of {', '.join(SOURCE_KINDS)}, not"
                f" {' and '.join(kinds) or 'none'}"
            )
        if self.query and not self.database:
            raise ValueError(
                f"{self.name}: query needs database, the name of the environment variable with the"
                " database's URL"
            )
        if self.watermark and self.since is None:
            raise ValueError(f"{self.name}: watermark needs since, the value of :since in the first run")
        if self.url and urlsplit(self.url).password is not None:
            raise ValueError(
                f"{self.name}: url contains a password; name an environment variable in options instead"
            )
        for path in filter(None, (self.folder, self.query)):
            if path.is_absolute() or ".." in path.parts:
                raise ValueError(f"{self.name}: {path} is outside the repository")
        return self


class Ingest(SettingsSection):
    """Settings of flow ``ingest``."""

    branch: Ref = "main"
    push: bool = False
    min_rows: Count = 1
    key: str | None = None
    max_conflict_share: Annotated[float, Field(ge=0, le=1)] = 0.05
    sources: list[IngestSource] = []

    @model_validator(mode="after")
    def _unique(self) -> Self:
        names = [source.name for source in self.sources]
        if duplicate := next((name for name in names if names.count(name) > 1), None):
            raise ValueError(f"sources: {duplicate!r} is the name of two sources")
        return self


class PromotionPolicy(SettingsSection):
    """Conditions under which a model replaces the one in production."""

    artifact: Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9-]*[a-z0-9]$")] = "onnx"
    stage: Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9-]*[a-z0-9]$")] = "production"
    metric: str | None = None
    confidence: Annotated[float, Field(gt=0.5, lt=1)] = 0.95
    resamples: Annotated[int, Field(ge=200)] = 5000
    min_rows: Annotated[int, Field(ge=1)] = 100
    min_gain: float = 0.0
    min_agreement: Annotated[float, Field(ge=0, le=1)] = 0.999
    max_abs_diff: Annotated[float, Field(ge=0)] = 1e-3
    max_megabytes: Annotated[float, Field(gt=0)] = 1000
    max_latency_ms: Annotated[float, Field(gt=0)] = 250
    take_over: Literal["none", "pull_request", "fast_forward"] = "none"
    branch: Annotated[str, Field(pattern=r"^[\w][\w./-]*$")] = "main"
    push_options: list[str] = []

    def conditions(self) -> str:
        """Return what decisions depend on, as JSON: all but the take-over."""
        return self.model_dump_json(exclude={"take_over", "branch", "push_options"})


Days = Annotated[float, Field(ge=0)]


class Retention(SettingsSection):
    """What is kept, and how long; ``None`` keeps for ever."""

    branch_days: Days | None = 90
    checkouts: Count | None = 3
    checkout_days: Days | None = 30
    checkpoint_days: Days | None = 14
    models: Annotated[int, Field(ge=1)] | None = 3
    cache_days: Days | None = 14
    cache_wait_minutes: Annotated[float, Field(ge=0)] = 360
    own_cache: bool = False
    remote: bool = False
    scored_days: Days | None = None
    refused_days: Days | None = 90
    prefect_days: Annotated[float, Field(ge=1)] | None = 90


class DriftSettings(DriftLimits):
    """Limits of drift, and what is compared.

    Attributes:
        window_rows: Number of last scored rows that are compared, rounded up to whole files.
        repeat_hours: Hours between two events about the same model.
    """

    window_rows: Annotated[int, Field(ge=1)] = 5000
    repeat_hours: Annotated[float, Field(ge=0)] = 24


class SizeLimits(SettingsSection):
    """Largest sizes of a file that is scored, decoded: a small one can unpack to more than memory and disk hold."""

    max_cell_characters: Annotated[int, Field(ge=1)] = DEFAULT_LIMITS.cell
    max_row_group_mb: Annotated[int, Field(ge=1)] = DEFAULT_LIMITS.row_group // MB
    max_unpacked_mb: Annotated[int, Field(ge=1)] = DEFAULT_LIMITS.unpacked // MB


class Scoring(SettingsSection):
    """Settings of flow ``score``."""

    inbox: Path = Path("data/inbox")
    outbox: Path = Path("data/scored")
    archive: Path | None = Path("data/archive")
    keep: list[str] = []
    bad_rows: Literal["stop", "skip"] = "stop"
    max_bad_share: Annotated[float, Field(ge=0, le=1)] = MAX_SHARE
    settle_seconds: Seconds = 10
    engine: Literal["local", "ray"] = "local"
    workers: Annotated[int, Field(ge=1)] | None = None
    limits: SizeLimits = SizeLimits()
    drift: DriftSettings = DriftSettings()

    @model_validator(mode="after")
    def _distinct(self) -> Self:
        folders = [folder for folder in (self.inbox, self.outbox, self.archive) if folder is not None]
        if len({Path(os.path.normpath(folder)) for folder in folders}) < len(folders):
            raise ValueError("inbox, outbox and archive must be different folders")
        return self


class StagePolicy(SettingsSection):
    """Retries and timeout of a stage's task."""

    retries: Count = 0
    retry_delay_seconds: list[Seconds] = []
    retries_after_signal: Count = 2
    timeout_minutes: Annotated[float, Field(gt=0)] = 60

    @property
    def delays(self) -> list[float]:
        """One delay for each retry, in seconds; the last one given repeats."""
        given = self.retry_delay_seconds[: self.retries] or [0.0]
        return given + [given[-1]] * (self.retries - len(given))


LAUNCHER = "TUNELINE_LAUNCHER"
"""Environment variable that ``stages/train/launch.py`` reads."""


class Training(SettingsSection):
    """What is trained, where its results go, and what a training shares with others: the machine, and its checkpoints."""

    ref: Ref = "main"
    push: bool = False
    one_per: Literal["machine", "gpu"] | None = "machine"
    command: list[str] = []
    checkpoints: str | None = None
    addresses: list[Annotated[str, Field(pattern=r"^[a-z0-9+.-]+:/\S*/$")]] | None = None

    @property
    def environment(self) -> dict[str, str]:
        """Environment variables of the stages: ``command`` starts the training, and ``data.path`` may name ``addresses``."""
        launcher = {LAUNCHER: shlex.join(self.command)} if self.command else {}
        return launcher | ({} if self.addresses is None else {ADDRESSES: " ".join(self.addresses)})


SETTINGS = Path("conf/flows.yaml")


class Settings(SettingsSection):
    """Content of ``conf/flows.yaml``; ``stages`` has the policy of each stage by its name, ``default`` for the others."""

    stages: dict[str, StagePolicy] = {}
    training: Training = Training()
    promotion: PromotionPolicy = PromotionPolicy()
    scoring: Scoring = Scoring()
    retention: Retention = Retention()
    ingest: Ingest = Ingest()
    git: GitHost = GitHost()
    alerts: Alerts = Alerts()
    lock_wait_seconds: Seconds = 600
    max_attempts: Annotated[int, Field(ge=1)] = 4

    def policy(self, stage: str) -> StagePolicy:
        """Return the policy of a stage."""
        return self.stages.get(stage) or self.stages.get("default") or StagePolicy()

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        for name, policy in self.stages.items():
            if len(policy.retry_delay_seconds) > policy.retries:
                raise ValueError(
                    f"stages.{name}.retry_delay_seconds: more delays than retries ({policy.retries})"
                )
        return self


def load_settings(root: Path) -> Settings:
    """Read the settings of a repository; defaults if it has none.

    Raises:
        ParamsError: A line is invalid YAML, or values or keys are invalid; the message lists them.
    """
    path = root / SETTINGS
    if not path.exists():
        return Settings()
    try:
        content = read_yaml(path)
    except ParamsError as error:
        # Of the clone and not of the commit that is trained: the worker pulls it when it starts.
        hint = (
            f"`git log -1 -- {SETTINGS}` names its last commit. Correct it in a new one, then `git pull"
            f" --ff-only` in {root}."
        )
        raise ParamsError(error.problem, hint) from None
    try:
        return Settings.model_validate(content or {})
    except ValidationError as error:
        errors = [f"{'.'.join(map(str, problem['loc']))}: {problem['msg']}" for problem in error.errors()]
        raise ParamsError("\n  ".join([f"{SETTINGS} has errors:", *errors])) from None
