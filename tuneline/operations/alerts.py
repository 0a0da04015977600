"""What people are told: how a run ended, and events that are repeated only every so many hours."""

import json
import math
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from prefect.client.schemas import State
from prefect.events import emit_event
from prefect.events.worker import EventsWorker
from prefect.states import Completed, Failed

from tuneline.core.runtime.files import write_json
from tuneline.core.runtime.terminal import first_lines, visible

REPORTED = 20
"""Problems in the message of a run; notifications contain it."""
SENT_WITHIN = 30.0
"""Seconds to wait until an event is sent."""


def ended(message: str, problems: Sequence[str] = (), name: str = "Completed") -> State[Any]:
    """Return the state of a run: Failed with the first problems if there are any, else completed."""
    if not problems:
        return Completed(name=name, message=visible(message))
    lines = [message]
    lines += first_lines(problems, REPORTED)
    if len(problems) > REPORTED:
        lines[-1] += ", see the log"
    return Failed(message=visible("\n".join(lines)))


def send(event: str, resource: Mapping[str, str], payload: Mapping[str, Any]) -> None:
    """Emit an event and wait until it is sent."""
    emit_event(event=event, resource=dict(resource), payload=dict(payload))
    EventsWorker.drain_all(timeout=SENT_WITHIN)  # emit_event only hands it to a thread


def send_if_due(
    record: Path,
    subject: str,
    repeat_hours: float,
    *,
    event: str,
    resource: Mapping[str, str],
    payload: Mapping[str, Any],
) -> None:
    """Emit an event, unless that was done for this subject in the last ``repeat_hours``.

    Another subject has its event at once. The time is recorded in a file after the event was sent: a kill in
    between repeats the event, and never loses it.
    """
    if 0 <= hours_since_event(record, subject) < repeat_hours:
        return

    send(event, resource, payload)
    record.parent.mkdir(parents=True, exist_ok=True)
    write_json(record, {subject: time.time()})


def hours_since_event(record: Path, subject: str) -> float:
    """Return the hours since the recorded event; infinite without a valid record.

    They are negative if the clock was set back.
    """
    try:
        sent = float(json.loads(record.read_bytes())[subject])
        return (time.time() - sent) / 3600
    except (OSError, ValueError, TypeError, LookupError):
        return math.inf
