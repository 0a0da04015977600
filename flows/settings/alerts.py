"""Settings of flow ``watch``."""

from typing import Annotated

from pydantic import Field

from flows.settings.section import Section

Limit = Annotated[float, Field(gt=0)] | None


class Alerts(Section):
    """Limits beyond which flow ``watch`` sends an alert; ``None`` for no alert.

    Attributes:
        runs_silent_hours: Hours since the last run of flow ``train`` that succeeded.
        production_old_days: Days since the training of the model in production.
        scoring_behind_hours: Hours that a file waits in the inbox.
        repeat_hours: Hours between two events of the same alert.
    """

    runs_silent_hours: Limit = 36
    production_old_days: Limit = 60
    scoring_behind_hours: Limit = 3
    repeat_hours: Annotated[float, Field(ge=0)] = 24
