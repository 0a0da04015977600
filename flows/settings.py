"""Settings of the flows, from ``conf/flows.yaml``. The parameters of the pipeline are in ``params.yaml``, which stages read."""

from pathlib import Path
from typing import Annotated, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator
from ruamel.yaml import YAML

from tuneline.errors import ParamsError
from tuneline.readers.limits import DEFAULT_LIMITS, MB

SETTINGS = Path("conf/flows.yaml")

Count = Annotated[int, Field(ge=0)]
Seconds = Annotated[float, Field(ge=0)]


class Section(BaseModel):
    """One section: frozen; unknown keys are errors."""

    model_config = ConfigDict(frozen=True, extra="forbid")


class StagePolicy(Section):
    """Retries and timeout of a stage's task.

    Attributes:
        retries: Attempts after a failure.
        retry_delay_seconds: Seconds before each retry; the last value repeats.
        timeout_minutes: Minutes until the stage is stopped; its task is then TimedOut.
    """

    retries: Count = 0
    retry_delay_seconds: list[Seconds] = []
    timeout_minutes: Annotated[float, Field(gt=0)] = 60

    @property
    def delays(self) -> list[float]:
        """One delay for each retry, in seconds."""
        given = self.retry_delay_seconds[: self.retries] or [0.0]
        return given + [given[-1]] * (self.retries - len(given))


class PromotionPolicy(Section):
    """Conditions under which a model replaces the one in production.

    Attributes:
        artifact: Name under ``artifacts:`` in dvc.yaml of what is registered.
        stage: Stage of the registry.
        metric: Metric to improve; ``None`` for accuracy, or Pearson's r for a regression.
        confidence: Confidence level of the interval and of McNemar's test.
        resamples: Number of bootstrap resamples.
        min_rows: Smallest number of rows of the reported split on which a decision is made.
        min_gain: The whole interval of the metric's difference must be above it.
        min_agreement: Smallest share of rows for which ``model.onnx`` and the trained model predict the same.
        max_abs_diff: Largest absolute difference of a logit between the two.
        max_megabytes: Largest size of ``model.onnx`` with its external data.
        max_latency_ms: Largest latency of one row in milliseconds, 95th percentile.
    """

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


class DriftLimits(Section):
    """Limits beyond which new texts drifted from the training data, if the difference is also significant.

    Attributes:
        max_psi: Largest population stability index.
        max_ks: Largest Kolmogorov-Smirnov distance.
        significance: Differences with a p-value of at least this are ignored.
        min_known_words: Smallest share of words that were common in training, relative to their share in training.
        min_rows: Number of rows below which drift is not measured.
        window_rows: Number of last scored rows that are compared, rounded up to whole files.
        repeat_hours: Hours between two events about the same model.
    """

    max_psi: Annotated[float, Field(gt=0)] = 0.25
    max_ks: Annotated[float, Field(gt=0, le=1)] = 0.2
    significance: Annotated[float, Field(gt=0, lt=1)] = 0.001
    min_known_words: Annotated[float, Field(ge=0, le=1)] = 0.7
    min_rows: Annotated[int, Field(ge=1)] = 200
    window_rows: Annotated[int, Field(ge=1)] = 5000
    repeat_hours: Annotated[float, Field(ge=0)] = 24


class SizeLimits(Section):
    """Largest sizes of a file that is scored: a small one can unpack to more than memory and disk hold.

    Attributes:
        max_cell_characters: Characters of a cell.
        max_row_group_mb: MB of a row group of a Parquet file, decoded.
        max_unpacked_mb: MB of the whole file, unpacked and decoded.
    """

    max_cell_characters: Annotated[int, Field(ge=1)] = DEFAULT_LIMITS.cell
    max_row_group_mb: Annotated[int, Field(ge=1)] = DEFAULT_LIMITS.row_group // MB
    max_unpacked_mb: Annotated[int, Field(ge=1)] = DEFAULT_LIMITS.unpacked // MB


class Scoring(Section):
    """Settings of flow ``score``.

    Attributes:
        inbox: Folder of new files, relative to the repository.
        outbox: Folder of scored files, relative to the repository.
        keep: Columns of the input that are copied to the output.
        bad_rows: ``stop`` refuses a file with a row that cannot be read; ``skip`` leaves the row out.
        settle_seconds: Seconds since its last change before a file is scored.
        limits: Sizes beyond which a file is refused.
        drift: Limits of drift.
    """

    inbox: Path = Path("data/inbox")
    outbox: Path = Path("data/scored")
    keep: list[str] = []
    bad_rows: Literal["stop", "skip"] = "stop"
    settle_seconds: Seconds = 10
    limits: SizeLimits = SizeLimits()
    drift: DriftLimits = DriftLimits()


class Settings(Section):
    """Content of ``conf/flows.yaml``.

    Attributes:
        stages: Policy by stage name; ``default`` for the others.
        promotion: Conditions of a promotion.
        scoring: Settings of flow ``score``.
        lock_wait_seconds: Seconds to wait for DVC's lock.
        max_attempts: Attempts of one run that crashes.
    """

    stages: dict[str, StagePolicy] = {}
    promotion: PromotionPolicy = PromotionPolicy()
    scoring: Scoring = Scoring()
    lock_wait_seconds: Seconds = 600
    max_attempts: Annotated[int, Field(ge=1)] = 4

    def policy(self, stage: str) -> StagePolicy:
        """Return the policy of a stage."""
        return self.stages.get(stage) or self.stages.get("default") or StagePolicy()

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        for name, policy in self.stages.items():
            if len(policy.retry_delay_seconds) > policy.retries:
                raise ValueError(f"stages.{name}.retry_delay_seconds: more delays than retries ({policy.retries})")
        return self


def load_settings(root: Path) -> Settings:
    """Read the settings of a repository; defaults if it has none.

    Raises:
        ParamsError: A value or key is invalid; the message lists each with its dotted key.
    """
    path = root / SETTINGS
    if not path.exists():
        return Settings()
    try:
        return Settings.model_validate(YAML(typ="safe", pure=True).load(path) or {})
    except ValidationError as error:
        errors = [f"{'.'.join(map(str, one['loc']))}: {one['msg']}" for one in error.errors()]
        raise ParamsError("\n  ".join([f"{SETTINGS} has errors:", *errors])) from None
