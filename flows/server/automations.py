"""Automations of earlier versions: the server looks after runs that died itself (flows/server/crashes.py).

``python -m flows.server.automations`` removes them. The automation that trains on drift is in ``prefect.yaml``, with the deployment that
it starts.
"""

from prefect.client.orchestration import SyncPrefectClient, get_client

FLOWS = ["train", "score"]
"""Names of the flows whose runs are monitored."""
FORMER = ("tuneline: pick up a crashed run", "tuneline: notice a run whose machine is gone")
"""Automations that would start a crashed run twice."""


def main() -> None:
    """Run the command line."""
    with get_client(sync_client=True) as client:
        remove_former(client)


def remove_former(client: SyncPrefectClient) -> None:
    """Remove the automations that are no longer used."""
    for name in FORMER:
        for automation in client.read_automations_by_name(name):
            client.delete_automation(automation.id)


if __name__ == "__main__":
    main()
