"""Create work pool, deployments and automations on the server of ``PREFECT_API_URL``.

``python -m tuneline.operations.server.deploy`` in the root of the project, on any machine, and again after
every change of ``prefect.yaml`` or ``conf/notifications.yaml``, or of the address for messages. What a person
paused stays paused.
"""

import hashlib
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from prefect.client.orchestration import SyncPrefectClient
from prefect.events.schemas.automations import AutomationCore
from prefect.exceptions import ObjectNotFound
from prefect.settings import get_current_settings
from ruamel.yaml import YAML

from tuneline.core.params.loading import read_yaml
from tuneline.core.runtime.terminal import say, visible

POOL = "tuneline"
DEPLOYMENTS = Path("prefect.yaml")
NOTIFICATIONS = Path("conf/notifications.yaml")
PEOPLE = "people"
"""Name of the block of Prefect with the address for messages, of whatever type."""


def main() -> None:
    """Deploy to the server of the environment, or of a profile of Prefect."""
    api = get_current_settings().api
    if api.url is None:  # Prefect would start a temporary server
        sys.exit(
            "On which server? Set PREFECT_API_URL and PREFECT_API_AUTH_STRING as `make schedule` prints them."
        )
    env = {**os.environ, "PREFECT_API_URL": api.url}
    if api.auth_string:
        env["PREFECT_API_AUTH_STRING"] = api.auth_string.get_secret_value()
    deploy(env)


def project_folder() -> Path:
    """Return the root of the project, which is the current folder.

    Raises:
        SystemExit: It has no deployments.
    """
    folder = Path.cwd()
    if not DEPLOYMENTS.exists():
        sys.exit(f"{folder} has no {DEPLOYMENTS}. Start this in the root of the project.")
    return folder


def client_of(env: Mapping[str, str]) -> SyncPrefectClient:
    """Return a client of the server that an environment names."""
    return SyncPrefectClient(env["PREFECT_API_URL"], auth_string=env.get("PREFECT_API_AUTH_STRING"))


def deploy(env: Mapping[str, str]) -> None:
    """Create or update work pool, deployments and automations on the server in ``env``.

    Raises:
        SystemExit: The current folder is no project, or a Prefect command failed; the message is Prefect's.
    """
    project_folder()
    yaml = YAML(typ="safe", pure=True)
    content = yaml.load(DEPLOYMENTS)
    create_pool = ["work-pool", "create", POOL, "--type", "process", "--overwrite"]
    with client_of(env) as client:
        if any(pool.name == POOL and pool.is_paused for pool in client.read_work_pools()):
            create_pool.append("--paused")
        for deployment in content["deployments"]:
            _keep_paused(deployment, client)

    with tempfile.TemporaryDirectory(prefix="tuneline-") as folder:
        file = Path(folder) / DEPLOYMENTS.name
        yaml.dump(content, file)
        _run_prefect(create_pool, env)
        _run_prefect(["--no-prompt", "deploy", "--all", "--prefect-file", str(file)], env)

    with client_of(env) as client:
        apply_automations(client, read_yaml(NOTIFICATIONS)["automations"])


def _run_prefect(arguments: list[str], env: Mapping[str, str]) -> None:
    """Run a command of Prefect; exit with its output if it fails."""
    command = [sys.executable, "-m", "prefect"]
    command += arguments
    process = subprocess.run(command, env=env, capture_output=True, text=True, check=False)
    if process.returncode:
        sys.exit(visible(process.stdout + process.stderr))


def _keep_paused(deployment: dict[str, Any], client: SyncPrefectClient) -> None:
    """Give a deployment the switches that it has on the server: Prefect makes them as the file has them."""
    try:
        name = f"{deployment['entrypoint'].rpartition(':')[2]}/{deployment['name']}"
        on_server = client.read_deployment_by_name(name)
    except ObjectNotFound:
        return
    deployment["paused"] = on_server.paused
    if on_server.schedules and not any(schedule.active for schedule in on_server.schedules):
        for schedule in deployment.get("schedules", []):
            schedule["active"] = False
    for trigger in deployment.get("triggers", []):
        existing = client.read_automations_by_name(trigger["name"])
        if existing:
            trigger["enabled"] = all(automation.enabled for automation in existing)


def apply_automations(client: SyncPrefectClient, entries: list[dict[str, Any]]) -> None:
    """Create the automations of ``conf/notifications.yaml``, or replace those that have changed.

    One that has not changed is left alone: it knows for which runs it waits. Those that send messages exist
    once there is an address. One that a person disabled stays so.
    """
    address = None
    for block in client.read_block_documents(include_secrets=False):
        if block.name == PEOPLE:
            address = str(block.id)
    if address is None:
        say(f"Nobody is told when a run fails: there is no block {PEOPLE!r} (docs/operations.md).")

    for entry in entries:
        sends = False
        for action in entry["actions"]:
            if action["type"] == "send-notification":
                sends = True
                action.setdefault("block_document_id", address)
        digest = hashlib.sha256(json.dumps(entry, sort_keys=True).encode()).hexdigest()[:12]
        description = f"{entry.get('description', '')} ({NOTIFICATIONS.name}, {digest})".lstrip()

        existing = client.read_automations_by_name(entry["name"])
        if any(automation.description == description for automation in existing):
            continue
        for automation in existing:
            client.delete_automation(automation.id)
        if sends and address is None:
            continue
        enabled = all(automation.enabled for automation in existing)
        content = {**entry, "description": description, "enabled": enabled}
        client.create_automation(AutomationCore.model_validate(content))


if __name__ == "__main__":
    main()
