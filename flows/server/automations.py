"""The automations of the flows; ``python -m flows.server.automations`` creates or updates them by name.

The automation that trains on drift is in ``prefect.yaml``, with the deployment that it starts.
"""

from datetime import timedelta
from typing import Any

from prefect.client.orchestration import SyncPrefectClient, get_client
from prefect.client.schemas.objects import StateType
from prefect.events.actions import ChangeFlowRunState
from prefect.events.schemas.automations import AutomationCore, EventTrigger, Posture

from flows.server import heartbeats

LONGEST_RUN = timedelta(days=30)
"""Longest run that is restarted after a crash. A server forgets what an automation waits for one minute after this time; without
a limit, one minute after the run began."""
FLOWS = {"prefect.resource.role": "flow", "prefect.resource.name": heartbeats.FLOWS}
_ENDED = ["Completed", "Failed", "Cancelled", "Crashed", "TimedOut"]


def automations() -> list[AutomationCore]:
    """Return the automations that the server should have."""
    return [
        AutomationCore(
            name="tuneline: pick up a crashed run",
            description="A run that crashed (its worker was killed, for example) resumes. Flow `train` limits the number of attempts.",
            trigger=EventTrigger(
                match={"prefect.resource.id": "prefect.flow-run.*"},
                match_related=FLOWS,
                # A run that crashes before it is running would crash again.
                after={"prefect.flow-run.Running"},
                expect={"prefect.flow-run.Crashed"},
                for_each={"prefect.resource.id"},
                posture=Posture.Reactive,
                threshold=1,
                within=LONGEST_RUN,
            ),
            actions=[ChangeFlowRunState(state=StateType.SCHEDULED, name="AwaitingRetry", message="Restarted after a crash.")],
        ),
        AutomationCore(
            name="tuneline: notice a run whose machine is gone",
            description="A run without three heartbeats has crashed, and neither it nor its worker can report that.",
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
    """Create the automations, replace those whose content differs, and return their names.

    An automation that is up to date is left alone: it knows for which runs it waits.
    """
    for automation in automations():
        existing = client.read_automations_by_name(automation.name)
        same = [one for one in existing if _content(one) == _content(automation)]
        for outdated in existing:
            if outdated not in same[:1]:
                client.delete_automation(outdated.id)
        if not same:
            client.create_automation(automation)
    return [automation.name for automation in automations()]


def _content(automation: AutomationCore) -> dict[str, Any]:
    """Return the content to compare, without the ids that the server adds."""
    content = automation.model_dump(mode="json", include=set(AutomationCore.model_fields))
    content["trigger"].pop("id", None)
    sets = {key: sorted(content["trigger"][key]) for key in ("after", "expect", "for_each")}  # their order varies
    return {**content, "trigger": {**content["trigger"], **sets}}


if __name__ == "__main__":
    with get_client(sync_client=True) as client:
        print(*apply(client), sep="\n")
