"""The automations on a server: they are created and replaced by name, and those of earlier versions are removed.

``python -m flows.server.automations`` removes them: the server looks after runs that died itself (flows/server/crashes.py). Those that
send notifications are created by ``flows.server.notifications``; those that start runs (ingest on drift, train on new
rows) are in ``prefect.yaml``, with the deployments that they start.
"""

from collections.abc import Sequence
from typing import Any

from prefect.client.orchestration import SyncPrefectClient, get_client
from prefect.events.schemas.automations import AutomationCore

FLOWS = ["train", "score", "ingest", "watch", "clean"]
"""Names of the flows whose runs are started again after a crash."""
FORMER = ("tuneline: pick up a crashed run", "tuneline: notice a run whose machine is gone")
"""Automations that would start a crashed run a second time."""


def main() -> None:
    """Run the command line."""
    with get_client(sync_client=True) as client:
        remove_former(client)


def remove_former(client: SyncPrefectClient) -> None:
    """Remove the automations that are no longer used."""
    for name in FORMER:
        for automation in client.read_automations_by_name(name):
            client.delete_automation(automation.id)


def apply(client: SyncPrefectClient, wanted: Sequence[AutomationCore]) -> list[str]:
    """Create the automations, replace those whose content differs, and return their names.

    An automation that is up to date is left alone: it knows for which runs it waits.
    """
    for automation in wanted:
        existing = client.read_automations_by_name(automation.name)
        same = [one for one in existing if _content(one) == _content(automation)]
        for outdated in existing:
            if outdated not in same[:1]:
                client.delete_automation(outdated.id)
        if not same:
            client.create_automation(automation)
    return [automation.name for automation in wanted]


def _content(automation: AutomationCore) -> dict[str, Any]:
    """Return the content to compare, without the ids that the server adds."""
    content = automation.model_dump(mode="json", include=set(AutomationCore.model_fields))
    return {**content, "trigger": _comparable(content["trigger"])}


def _comparable(trigger: dict[str, Any]) -> dict[str, Any]:
    sets: dict[str, Any] = {key: sorted(trigger[key]) for key in ("after", "expect", "for_each") if key in trigger}  # their order varies
    nested = {"triggers": [_comparable(one) for one in trigger["triggers"]]} if "triggers" in trigger else {}
    return {**trigger, **sets, **nested, "id": None}
