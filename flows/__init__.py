"""Prefect flows that schedule the pipeline. They run its stages through ``dvc``: no import of ``stages`` or torch."""

import logging

import tuneline as tuneline  # turns telemetry off, before a flow imports Prefect
from tuneline.core.terminal import visible


class VisibleRecord(logging.LogRecord):
    """A record of the log. Messages contain names of files, labels and refs, and are printed by workers and by ``prefect``."""

    def getMessage(self) -> str:  # noqa: N802 - its name in logging
        """Return the message with control characters as codes."""
        return visible(super().getMessage())


logging.setLogRecordFactory(VisibleRecord)
