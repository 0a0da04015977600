"""What a cancelled run logs. Cancelling interrupts the task that runs, and Prefect would log that as a crash."""

import logging

from prefect._internal.control_listener import get_intent  # nothing public tells a cancellation from another SIGTERM

STOPPED = "Stopped, because the run is being cancelled."


class _Cancelled(logging.Filter):
    def filter(self, record: logging.LogRecord) -> bool:
        if str(record.msg).startswith("Crash detected!") and get_intent() == "cancel":
            record.msg, record.args = STOPPED, ()
            record.levelno, record.levelname = logging.INFO, logging.getLevelName(logging.INFO)
        return True


_CANCELLED = _Cancelled()


def log_cancellation() -> None:
    """Have the tasks of this process log that they were stopped, and not that they crashed."""
    logging.getLogger("prefect.task_runs").addFilter(_CANCELLED)
