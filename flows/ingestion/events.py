"""The events of flow ``ingest``, for the automations of the server."""

from typing import Any

from flows.alerts import events

INGESTED = "tuneline.data.ingested"
REFUSED = "tuneline.data.refused"
RESOURCE = "tuneline.data.source"


def send(event: str, source: str, message: str, **payload: Any) -> None:
    """Emit an event, and wait until it is sent.

    Args:
        event: Its name.
        source: Names of the sources.
        message: What happened, for people.
        payload: What programs read.
    """
    events.send(event, {"prefect.resource.id": RESOURCE}, {"source": source, "message": message, **payload})
