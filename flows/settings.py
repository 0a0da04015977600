"""What the flows go by, from ``conf/flows.yaml``. Their own models: the line's parameters are the stages' business."""

from pathlib import Path
from typing import Annotated, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator
from ruamel.yaml import YAML

SETTINGS = Path("conf/flows.yaml")

Count = Annotated[int, Field(ge=0)]
Seconds = Annotated[float, Field(ge=0)]


class Section(BaseModel):
    """One section: frozen, and refusing keys that it does not know."""

    model_config = ConfigDict(frozen=True, extra="forbid")


class StagePolicy(Section):
    """How a stage's task is run.

    Attributes:
        retries: Further attempts after a failure.
        retry_delay_seconds: Seconds before each of them; the last one repeats.
        timeout_minutes: After that the stage is stopped, and its task is TimedOut.
    """

    retries: Count = 0
    retry_delay_seconds: list[Seconds] = []
    timeout_minutes: Annotated[float, Field(gt=0)] = 60

    @property
    def delays(self) -> list[float]:
        """One delay for each retry."""
        known = self.retry_delay_seconds[: self.retries] or [0.0]
        return known + [known[-1]] * (self.retries - len(known))


class PromotionPolicy(Section):
    """When a model may take the place of the one in production.

    Attributes:
        artifact: Name under ``artifacts:`` in dvc.yaml; it gets the version.
        stage: Of the registry.
        metric: What must get better; ``None`` for accuracy, or Pearson's r for a regression.
        confidence: Of the interval, and of McNemar's test.
        resamples: Draws of the bootstrap.
        min_gain: The whole interval must be above it.
        min_agreement: Share of rows on which ``model.onnx`` predicts what the trained model does.
        max_abs_diff: Of any logit, between the two.
        max_megabytes: Of ``model.onnx``.
        max_latency_ms: Of one row, at the 95th percentile.
    """

    artifact: Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9-]*[a-z0-9]$")] = "onnx"
    stage: Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9-]*[a-z0-9]$")] = "production"
    metric: str | None = None
    confidence: Annotated[float, Field(gt=0.5, lt=1)] = 0.95
    resamples: Annotated[int, Field(ge=200)] = 5000
    min_gain: float = 0.0
    min_agreement: Annotated[float, Field(ge=0, le=1)] = 0.999
    max_abs_diff: Annotated[float, Field(ge=0)] = 1e-3
    max_megabytes: Annotated[float, Field(gt=0)] = 1000
    max_latency_ms: Annotated[float, Field(gt=0)] = 250


class DriftLimits(Section):
    """How far new texts may be from those of the training. Beyond both a limit and chance, they drifted.

    Attributes:
        max_psi: Population stability index.
        max_ks: Kolmogorov-Smirnov distance.
        significance: What chance alone makes more often than this is let through.
        min_known_words: Share of words that were common in training, of that share in training.
        min_rows: Fewer say nothing.
        window_rows: The last so many scored rows are looked at, in whole files.
        repeat_hours: After an event, so long until the next for the same model.
    """

    max_psi: Annotated[float, Field(gt=0)] = 0.25
    max_ks: Annotated[float, Field(gt=0, le=1)] = 0.2
    significance: Annotated[float, Field(gt=0, lt=1)] = 0.001
    min_known_words: Annotated[float, Field(ge=0, le=1)] = 0.7
    min_rows: Annotated[int, Field(ge=1)] = 200
    window_rows: Annotated[int, Field(ge=1)] = 5000
    repeat_hours: Annotated[float, Field(ge=0)] = 24


class Scoring(Section):
    """Flow ``score``.

    Attributes:
        inbox: Folder of new files, relative to the repository.
        outbox: Folder of the scored ones.
        keep: Columns of the input that go into the output.
        bad_rows: What to do about a row that cannot be read: leave it out, or refuse the file.
        settle_seconds: A file that was written to more recently is left for the next time.
        drift: When new texts are no longer what the model was trained on.
    """

    inbox: Path = Path("data/inbox")
    outbox: Path = Path("data/scored")
    keep: list[str] = []
    bad_rows: Literal["stop", "skip"] = "stop"
    settle_seconds: Seconds = 10
    drift: DriftLimits = DriftLimits()


class Settings(Section):
    """``conf/flows.yaml``."""

    stages: dict[str, StagePolicy] = {}
    promotion: PromotionPolicy = PromotionPolicy()
    scoring: Scoring = Scoring()
    lock_wait_seconds: Seconds = 600
    max_attempts: Annotated[int, Field(ge=1)] = 4

    def policy(self, stage: str) -> StagePolicy:
        """How the task of a stage is run."""
        return self.stages.get(stage) or self.stages.get("default") or StagePolicy()

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        for name, policy in self.stages.items():
            if len(policy.retry_delay_seconds) > policy.retries:
                raise ValueError(f"stages.{name}.retry_delay_seconds: more delays than retries ({policy.retries})")
        return self


class SettingsError(Exception):
    """``conf/flows.yaml`` does not say what the flows can do."""


def load_settings(root: Path) -> Settings:
    """Reads the settings of a repository; the defaults where it has none.

    Raises:
        SettingsError: A value is not what its key takes; every fault is named with its dotted key.
    """
    path = root / SETTINGS
    if not path.exists():
        return Settings()
    try:
        return Settings.model_validate(YAML(typ="safe", pure=True).load(path) or {})
    except ValidationError as error:
        faults = [f"{'.'.join(map(str, fault['loc']))}: {fault['msg']}" for fault in error.errors()]
        raise SettingsError("\n  ".join([f"{SETTINGS} has faults:", *faults])) from None
