"""Retries and timeouts of the stages' tasks."""

from typing import Annotated

from pydantic import Field

from flows.settings.section import Count, Seconds, Section


class StagePolicy(Section):
    """Retries and timeout of a stage's task.

    Attributes:
        retries: Attempts after a failure.
        retry_delay_seconds: Seconds before each retry; the last value repeats.
        retries_after_signal: Attempts after the system killed the stage (no memory, a fault of a GPU's driver); training resumes.
        timeout_minutes: Minutes until the stage is stopped; its task is then TimedOut.
    """

    retries: Count = 0
    retry_delay_seconds: list[Seconds] = []
    retries_after_signal: Count = 2
    timeout_minutes: Annotated[float, Field(gt=0)] = 60

    @property
    def delays(self) -> list[float]:
        """One delay for each retry, in seconds."""
        given = self.retry_delay_seconds[: self.retries] or [0.0]
        return given + [given[-1]] * (self.retries - len(given))
