"""The automations that belong to the flows; ``python -m flows.server.automations`` creates or updates them by name.

The one that trains on drift is in ``prefect.yaml``, with the deployment that it starts.
"""

from datetime import timedelta
from typing import Any

from prefect.client.orchestration import SyncPrefectClient, get_client
from prefect.client.schemas.objects import StateType
from prefect.events.actions import ChangeFlowRunState
from prefect.events.schemas.automations import AutomationCore, EventTrigger, Posture

from flows.server import heartbeats

LONGEST_RUN = timedelta(days=30)
"""How long a run may last and still be picked up. A server forgets what an automation waits for one minute after this;
without any limit named, one minute after the run began."""
FLOWS = {"prefect.resource.role": "flow", "prefect.resource.name": heartbeats.FLOWS}
_ENDED = ["Completed", "Failed", "Cancelled", "Crashed", "TimedOut"]


def automations() -> list[AutomationCore]:
    """What is to stand on the server."""
    return [
        AutomationCore(
            name="tuneline: pick up a crashed run",
            description="A run that crashed (its worker was killed, say) goes on where it stopped. Flow `train` gives up by itself.",
            trigger=EventTrigger(
                match={"prefect.resource.id": "prefect.flow-run.*"},
                match_related=FLOWS,
                # Of a run that never got as far as running, the next attempt would not either.
                after={"prefect.flow-run.Running"},
                expect={"prefect.flow-run.Crashed"},
                for_each={"prefect.resource.id"},
                posture=Posture.Reactive,
                threshold=1,
                within=LONGEST_RUN,
            ),
            actions=[ChangeFlowRunState(state=StateType.SCHEDULED, name="AwaitingRetry", message="Picked up after a crash.")],
        ),
        AutomationCore(
            name="tuneline: notice a run whose machine is gone",
            description="A run that was silent for three heartbeats has crashed: neither it nor its worker can say so any more.",
            trigger=EventTrigger(
                match={"prefect.resource.id": "prefect.flow-run.*"},
                match_related=FLOWS,
                after={"prefect.flow-run.heartbeat"},
                expect={"prefect.flow-run.heartbeat", *(f"prefect.flow-run.{state}" for state in _ENDED)},
                for_each={"prefect.resource.id"},
                posture=Posture.Proactive,
                threshold=1,
                within=heartbeats.SILENCE,
            ),
            actions=[ChangeFlowRunState(state=StateType.CRASHED, message="No heartbeat: the machine of this run is gone.")],
        ),
    ]


def apply(client: SyncPrefectClient) -> list[str]:
    """Creates the automations, or puts them in place of those that say something else, and returns their names.

    One that stands as it should is left alone: it remembers which runs it waits to hear from.
    """
    for automation in automations():
        standing = client.read_automations_by_name(automation.name)
        same = [one for one in standing if _content(one) == _content(automation)]
        for outdated in standing:
            if outdated not in same[:1]:
                client.delete_automation(outdated.id)
        if not same:
            client.create_automation(automation)
    return [automation.name for automation in automations()]


def _content(automation: AutomationCore) -> dict[str, Any]:
    """What it does; the server gives automations and triggers ids of its own."""
    content = automation.model_dump(mode="json", include=set(AutomationCore.model_fields))
    content["trigger"].pop("id", None)
    sets = {key: sorted(content["trigger"][key]) for key in ("after", "expect", "for_each")}  # they come in any order
    return {**content, "trigger": {**content["trigger"], **sets}}


if __name__ == "__main__":
    with get_client(sync_client=True) as client:
        print(*apply(client), sep="\n")
