"""Create work pool and deployments on the server of ``PREFECT_API_URL``; repeat it after every change.

``python -m flows.server.deploy``, on any machine (docs/production.md). What a person paused on the server
stays paused, and is printed.
"""

import argparse
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ruamel.yaml import YAML

from tuneline.messages import ServerError, messages
from tuneline.runtime.terminal import say, visible

if TYPE_CHECKING:
    from prefect.client.orchestration import SyncPrefectClient

POOL = "tuneline"
ROOT = Path(__file__).parents[2]
DEPLOYMENTS = ROOT / "prefect.yaml"
TRAIN_ENTRYPOINT = "flows/train.py:train"


def main() -> None:
    """Run the command line."""
    from prefect.settings import get_current_settings

    parser = argparse.ArgumentParser(prog="python -m flows.server.deploy", description=__doc__)
    parser.add_argument(
        "--train-queue",
        metavar="NAME",
        help="work queue of the train deployments: only workers that serve it train",
    )
    options = parser.parse_args()

    api = get_current_settings().api  # from the environment or a profile of Prefect
    if api.url is None:  # Prefect would start a temporary server
        sys.exit(
            "On which server? Set PREFECT_API_URL and PREFECT_API_AUTH_STRING as `make schedule` prints them."
        )
    env = {**os.environ, "PREFECT_CLI_PROMPT": "false", "PREFECT_API_URL": api.url}
    if api.auth_string:
        env["PREFECT_API_AUTH_STRING"] = api.auth_string.get_secret_value()
    deploy(env, options.train_queue)


def deploy(env: Mapping[str, str], train_queue: str | None = None) -> None:
    """Create or update work pool, deployments of ``prefect.yaml`` and automations on the server in ``env``.

    What exists there stays paused or active, as it is. The work queue (created if it is missing) replaces
    the one of the deployments of flow ``train``.

    Raises:
        SystemExit: A Prefect command failed; the message is Prefect's.
    """
    # Takes a second, which a worker that imports this module need not wait for.
    from prefect.client.orchestration import SyncPrefectClient

    yaml = YAML(typ="safe", pure=True)
    content = yaml.load(DEPLOYMENTS)
    deployments = content["deployments"]

    # what is paused on the server
    create_pool = ["prefect", "work-pool", "create", POOL, "--type", "process", "--overwrite"]
    paused = []
    with SyncPrefectClient(env["PREFECT_API_URL"], auth_string=env.get("PREFECT_API_AUTH_STRING")) as client:
        if any(pool.name == POOL and pool.is_paused for pool in client.read_work_pools()):
            create_pool.append("--paused")
            paused.append(f"work pool {POOL}")
        for deployment in deployments:
            paused += _as_on_server(deployment, client)

    # the queue for training
    for deployment in deployments:
        if deployment["entrypoint"] == TRAIN_ENTRYPOINT and train_queue is not None:
            deployment["work_pool"] = {**deployment["work_pool"], "work_queue_name": train_queue}

    with tempfile.TemporaryDirectory(prefix="tuneline-") as folder:
        file = Path(folder) / DEPLOYMENTS.name
        yaml.dump(content, file)
        _run_module(create_pool, env)
        _run_module(["prefect", "--no-prompt", "deploy", "--all", "--prefect-file", str(file)], env)

    _say_who_is_told(env)
    if paused:
        title = "Somebody paused these, and they stay paused until they are resumed on the server's page:"
        say(visible("\n  ".join([title, *paused])))


def _say_who_is_told(env: Mapping[str, str]) -> None:
    """Say if messages reach nobody: a new database has no address."""
    try:
        known = messages(env["PREFECT_API_URL"], env.get("PREFECT_API_AUTH_STRING"))
    except ServerError as error:
        say(visible(f"Messages: {error}"), error=True)
        return
    if known.remedy:
        say(visible(f"Messages: {known.text}. {known.remedy}"), error=True)


def _run_module(command: list[str], env: Mapping[str, str]) -> None:
    """Run a module of Python with arguments; exit with its output if it fails."""
    say(f"... {' '.join(command[:4])}")
    process = subprocess.run(
        [sys.executable, "-m", *command], cwd=ROOT, env=env, capture_output=True, text=True, check=False
    )
    if process.returncode:
        sys.exit(visible(process.stdout + process.stderr))


def _as_on_server(deployment: dict[str, Any], client: "SyncPrefectClient") -> Iterator[str]:
    """Give a deployment the switches that it has on the server; yield what is off there, and on in the file.

    Prefect makes schedules and automations anew, as the file has them.
    """
    from prefect.exceptions import ObjectNotFound

    name = f"{deployment['entrypoint'].rpartition(':')[2]}/{deployment['name']}"
    try:
        on_server = client.read_deployment_by_name(name)
    except ObjectNotFound:
        return
    deployment["paused"] = on_server.paused
    if on_server.paused:
        yield f"deployment {name}"

    active = {getattr(schedule.schedule, "cron", None): schedule.active for schedule in on_server.schedules}
    for schedule in deployment.get("schedules", []):
        cron = schedule.get("cron")
        on_in_file = schedule.get("active", True)
        if cron in active:
            schedule["active"] = active[cron]
        else:
            # One that is new, because its time was changed, is off where all others are.
            schedule["active"] = on_in_file and (not active or any(active.values()))
        if on_in_file and not schedule["active"]:
            yield f"schedule {cron} of {name}"

    for number, trigger in enumerate(deployment.get("triggers", []), 1):
        # Without a name, an automation has the one that Prefect gives it.
        title = trigger.get("name", f"{deployment['name']}__automation_{number}")
        on_in_file = trigger.get("enabled", True)
        enabled = [automation.enabled for automation in client.read_automations_by_name(title)]
        trigger["enabled"] = all(enabled) if enabled else on_in_file
        if on_in_file and not trigger["enabled"]:
            yield f"automation {title}"


if __name__ == "__main__":
    main()
