"""The events of flow ``ingest``, for the automations of the server."""

from typing import Any

from prefect.events import emit_event
from prefect.events.worker import EventsWorker

INGESTED = "tuneline.data.ingested"
REFUSED = "tuneline.data.refused"
RESOURCE = "tuneline.data.source"
SENT_WITHIN = 30.0
"""Seconds to wait until an event is sent."""


def send(event: str, source: str, message: str, **payload: Any) -> None:
    """Emit an event, and wait until it is sent.

    Args:
        event: Its name.
        source: Names of the sources.
        message: What happened, for people.
        payload: What programs read.
    """
    emit_event(event=event, resource={"prefect.resource.id": RESOURCE}, payload={"source": source, "message": message, **payload})
    EventsWorker.drain_all(timeout=SENT_WITHIN)  # emit_event only hands it to a thread
