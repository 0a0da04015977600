"""How long the flows wait for a git host that cannot be reached."""

from flows.settings.section import Seconds, Section


class GitHost(Section):
    """Retries of what talks to a git remote.

    Attributes:
        retry_delay_seconds: Seconds before each retry; as many retries as there are values.
    """

    retry_delay_seconds: list[Seconds] = [2, 5, 15, 30, 60]
