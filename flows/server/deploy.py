"""Create work pool and deployments on the server that ``PREFECT_API_URL`` names; repeat it after every change.

``python -m flows.server.deploy``, on any machine (docs/production.md).
"""

import argparse
import contextlib
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from ruamel.yaml import YAML

from tuneline.core.terminal import say, visible

POOL = "tuneline"
ROOT = Path(__file__).parents[2]
DEPLOYMENTS = ROOT / "prefect.yaml"
TRAIN = "flows/train.py:train"


def main() -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser(prog="python -m flows.server.deploy", description=__doc__)
    parser.add_argument("--ref", help="ref that the train deployments run, origin/main for example (default: that of prefect.yaml)")
    parser.add_argument("--push", action="store_true", help="make the train deployments push their results to the remotes of git and DVC")
    parser.add_argument("--train-queue", metavar="NAME", help="work queue of the train deployments: only workers that serve it train")
    options = parser.parse_args()
    parameters = {**({"ref": options.ref} if options.ref else {}), **({"push": True} if options.push else {})}
    deploy({**os.environ, "PREFECT_CLI_PROMPT": "false"}, parameters, options.train_queue)


def deploy(env: Mapping[str, str], parameters: Mapping[str, Any] | None = None, train_queue: str | None = None) -> None:
    """Create or update the work pool, the deployments of ``prefect.yaml`` and the automations, on the server that ``env`` names.

    Parameters and work queue (created if it is missing) replace those of the deployments of flow ``train`` and their triggers.

    Raises:
        SystemExit: A Prefect command failed; the message is Prefect's.
    """
    with _deployments(parameters or {}, train_queue) as file:
        for step in (
            ["prefect", "work-pool", "create", POOL, "--type", "process", "--overwrite"],
            ["prefect", "--no-prompt", "deploy", "--all", "--prefect-file", str(file)],
            ["flows.server.crashes"],
        ):
            say(f"... {' '.join(step[:4])}")
            done = subprocess.run([sys.executable, "-m", *step], cwd=ROOT, env=env, capture_output=True, text=True, check=False)
            if done.returncode:
                sys.exit(visible(done.stdout + done.stderr))


@contextlib.contextmanager
def _deployments(parameters: Mapping[str, Any], train_queue: str | None) -> Iterator[Path]:
    """Yield ``prefect.yaml``, or a copy of it with other parameters and another queue."""
    if not parameters and train_queue is None:
        yield DEPLOYMENTS
        return
    yaml = YAML(typ="safe", pure=True)
    content = yaml.load(DEPLOYMENTS)
    for deployment in content["deployments"]:
        if deployment["entrypoint"] == TRAIN:
            for entry in (deployment, *deployment.get("triggers", [])):
                entry["parameters"] = {**entry.get("parameters", {}), **parameters}
            if train_queue is not None:
                deployment["work_pool"] = {**deployment["work_pool"], "work_queue_name": train_queue}
    with tempfile.TemporaryDirectory(prefix="tuneline-") as folder:
        file = Path(folder) / DEPLOYMENTS.name
        yaml.dump(content, file)
        yield file


if __name__ == "__main__":
    main()
