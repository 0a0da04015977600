"""Create work pool and deployments on the server that ``PREFECT_API_URL`` names; repeat it after every change.

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

from tuneline.core.terminal import say, visible

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
            "On which server? Set PREFECT_API_URL and PREFECT_API_AUTH_STRING as `make serve` prints them."
        )
    login = {"PREFECT_API_AUTH_STRING": api.auth_string.get_secret_value()} if api.auth_string else {}
    deploy(
        {**os.environ, "PREFECT_CLI_PROMPT": "false", "PREFECT_API_URL": api.url, **login},
        options.train_queue,
    )


def deploy(env: Mapping[str, str], train_queue: str | None = None) -> None:
    """Create or update the work pool, the deployments of ``prefect.yaml`` and the automations, on the server that ``env`` names.

    What exists there stays paused or active, as it is. The work queue (created if it is missing) replaces
    that of the deployments of flow ``train``.

    Raises:
        SystemExit: A Prefect command failed; the message is Prefect's.
    """
    from prefect.client.orchestration import (
        SyncPrefectClient,
    )  # takes a second, which a worker that imports this module need not wait for

    yaml = YAML(typ="safe", pure=True)
    content = yaml.load(DEPLOYMENTS)
    with SyncPrefectClient(env["PREFECT_API_URL"], auth_string=env.get("PREFECT_API_AUTH_STRING")) as client:
        pool_paused = any(pool.name == POOL and pool.is_paused for pool in client.read_work_pools())
        paused = [
            *([f"work pool {POOL}"] if pool_paused else []),
            *_as_on_server(content["deployments"], client),
        ]
    for deployment in content["deployments"]:
        if deployment["entrypoint"] == TRAIN_ENTRYPOINT and train_queue is not None:
            deployment["work_pool"] = {**deployment["work_pool"], "work_queue_name": train_queue}
    with tempfile.TemporaryDirectory(prefix="tuneline-") as folder:
        file = Path(folder) / DEPLOYMENTS.name
        yaml.dump(content, file)
        for step in (
            [
                "prefect",
                "work-pool",
                "create",
                POOL,
                "--type",
                "process",
                "--overwrite",
                *(["--paused"] if pool_paused else []),
            ],
            ["prefect", "--no-prompt", "deploy", "--all", "--prefect-file", str(file)],
        ):
            say(f"... {' '.join(step[:4])}")
            done = subprocess.run(
                [sys.executable, "-m", *step], cwd=ROOT, env=env, capture_output=True, text=True, check=False
            )
            if done.returncode:
                sys.exit(visible(done.stdout + done.stderr))
    if paused:
        say(
            visible(
                "\n  ".join(
                    [
                        (
                            "Somebody paused these, and they stay paused until they are resumed on the"
                            " server's page:"
                        ),
                        *paused,
                    ]
                )
            )
        )


def _as_on_server(deployments: list[dict[str, Any]], client: "SyncPrefectClient") -> Iterator[str]:
    """Give the deployments the switches that they have on the server, and yield what is off there, and on in the file.

    Prefect makes schedules and automations anew, as the file has them.
    """
    from prefect.exceptions import ObjectNotFound

    for deployment in deployments:
        name = f"{deployment['entrypoint'].rpartition(':')[2]}/{deployment['name']}"
        try:
            known = client.read_deployment_by_name(name)
        except ObjectNotFound:
            continue
        deployment["paused"] = known.paused
        if known.paused:
            yield f"deployment {name}"
        active = {getattr(one.schedule, "cron", None): one.active for one in known.schedules}
        for schedule in deployment.get("schedules", []):
            # One that is new, because its time was changed, is off where all others are.
            on, cron = schedule.get("active", True), schedule.get("cron")
            schedule["active"] = active.get(cron, on and (not active or any(active.values())))
            if on and not schedule["active"]:
                yield f"schedule {cron} of {name}"
        for number, trigger in enumerate(deployment.get("triggers", []), 1):
            title, on = (
                trigger.get("name", f"{deployment['name']}__automation_{number}"),
                trigger.get("enabled", True),
            )
            trigger["enabled"] = (
                all(states)
                if (states := [one.enabled for one in client.read_automations_by_name(title)])
                else on
            )
            if on and not trigger["enabled"]:
                yield f"automation {title}"


if __name__ == "__main__":
    main()
