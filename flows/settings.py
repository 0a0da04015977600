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
    metric: Literal["accuracy", "f1", "pearson"] | None = None
    confidence: Annotated[float, Field(gt=0.5, lt=1)] = 0.95
    resamples: Annotated[int, Field(ge=200)] = 5000
    min_gain: float = 0.0
    min_agreement: Annotated[float, Field(ge=0, le=1)] = 0.999
    max_abs_diff: Annotated[float, Field(ge=0)] = 1e-3
    max_megabytes: Annotated[float, Field(gt=0)] = 1000
    max_latency_ms: Annotated[float, Field(gt=0)] = 250


class Settings(Section):
    """``conf/flows.yaml``."""

    stages: dict[str, StagePolicy] = {}
    promotion: PromotionPolicy = PromotionPolicy()
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
