"""Settings of the flows, from ``conf/flows.yaml``. The parameters of the pipeline are in ``params.yaml``, which stages read."""

from pathlib import Path
from typing import Annotated, Self

from pydantic import Field, ValidationError, model_validator
from ruamel.yaml import YAML

from flows.settings.alerts import Alerts
from flows.settings.git import GitHost
from flows.settings.ingest import Ingest
from flows.settings.promotion import PromotionPolicy
from flows.settings.retention import Retention
from flows.settings.scoring import Scoring
from flows.settings.section import Seconds, Section
from flows.settings.stages import StagePolicy
from flows.settings.training import Training
from tuneline.errors import ParamsError

SETTINGS = Path("conf/flows.yaml")


class Settings(Section):
    """Content of ``conf/flows.yaml``.

    Attributes:
        stages: Policy by stage name; ``default`` for the others.
        training: Settings of the training.
        promotion: Conditions of a promotion.
        scoring: Settings of flow ``score``.
        retention: What is kept, and how long.
        ingest: Settings of flow ``ingest``.
        git: Retries of what talks to a git remote.
        alerts: Limits of flow ``watch``.
        lock_wait_seconds: Seconds to wait for DVC's lock.
        max_attempts: Attempts of one run that crashes.
    """

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
