"""Measure what flow ``train`` adds to ``dvc repro``.

Two ways alternate, each in a clone of the last commit with a cache of its own: ``dvc repro``; the flow,
requested through the API of a real server (SQLite) and run by a real worker that is ready. The model is
small, so that the overhead is not lost in the noise of the stages; every round has its own seed, so that
every stage runs. The flow runs a commit with these parameters, as every night. From the second round on a
model is in production, which the gate has to compare and which is replaced: the most work a run can have. Run
``python -m benchmarks.flows`` in the root of the project, with nothing else running on the machine.
"""

import argparse
import os
import secrets
import shlex
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path

from dvc.utils.hydra import compose_and_dump
from prefect.client.orchestration import SyncPrefectClient, get_client
from prefect.client.schemas.filters import FlowRunFilter, FlowRunFilterId
from prefect.client.schemas.objects import FlowRun, TaskRun
from prefect.settings import PREFECT_API_AUTH_STRING, PREFECT_API_URL, temporary_settings
from rich.console import Console
from rich.table import Table

from tuneline.core.runtime.processes import ending
from tuneline.operations.server import schedule
from tuneline.operations.server.deploy import POOL, deploy

SMALL = ["data.sample.rows=800", "tokenize.vocab_size=600", "train.epochs=1", "model.config.hidden_size=32"]
SMALL += ["model.config.num_hidden_layers=1", "model.config.intermediate_size=64"]
SMALL += ["compare.int8.min_agreement=0.5", "compare.int8.max_metric_drop=0.5"]
DEPLOYMENT = "train/train-on-demand"
BESIDE = ("prepare", "push", "gate", "promote")
"""Tasks that are not stages."""
AUTHOR = ("-c", "user.name=benchmark", "-c", "user.email=benchmark@localhost")


def clone(folder: Path) -> Path:
    """Clone the last commit, and let the gate pass any model: the promotion is part of the measurement."""
    subprocess.run(["git", "clone", "--quiet", str(Path.cwd()), str(folder)], check=True)
    run(["git", "checkout", "--quiet", "-B", "main"], folder)  # what the deployment runs
    settings = folder / "conf" / "flows.yaml"
    passing = (
        settings.read_text()
        .replace("min_gain: 0.0 ", "min_gain: -1.0")
        .replace("min_rows: 100 ", "min_rows: 1 ")
    )
    settings.write_text(passing)
    return folder


def dvc_repro(root: Path, seed: int) -> float:
    """Run ``dvc repro`` and return the seconds."""
    compose(root, seed)
    started = time.perf_counter()
    run(["dvc", "repro"], root)
    return time.perf_counter() - started


def compose(root: Path, seed: int) -> None:
    """Set the parameters of a round."""
    overrides = [*SMALL, f"seed={seed}"]
    compose_and_dump(root / "params.yaml", str(root / "conf"), None, "config", str(root), overrides)


def run(command: list[str], root: Path) -> None:
    """Run a program of this environment; print its output and exit if it fails."""
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    done = subprocess.run(
        command, cwd=root, env={**os.environ, "PATH": path}, capture_output=True, text=True, check=False
    )
    if done.returncode:
        sys.exit(f"{shlex.join(command)}:\n{done.stdout}{done.stderr}")


@contextmanager
def prefect(home: Path, port: int) -> Iterator[SyncPrefectClient]:
    """Run a server with the deployments of ``prefect.yaml`` and a worker, and yield a client.

    The worker is ready then.
    """
    login = f"benchmark:{secrets.token_hex(16)}"
    served = schedule.settings(port, login)
    env = {**served, "PREFECT_HOME": str(home), "PREFECT_SERVER_UI_ENABLED": "false"}
    home.mkdir()
    with (home / "log").open("w") as log, schedule.server(port, env, stdout=log, stderr=log):
        deploy(env)
        command = [sys.executable, "-m", "prefect", "worker", "start", "--pool", POOL]
        worker = schedule.start_apart(command, env, stdout=log, stderr=log)
        client_settings = {PREFECT_API_URL: env["PREFECT_API_URL"], PREFECT_API_AUTH_STRING: login}
        with ending(worker), temporary_settings(client_settings), get_client(sync_client=True) as client:
            while not client.read_workers_for_work_pool(POOL):
                time.sleep(0.5)
            yield client


def flow(client: SyncPrefectClient, root: Path, seed: int) -> tuple[float, dict[str, float]]:
    """Request a run and wait for it; return the seconds from the request to the end, and of its parts."""
    compose(root, seed)
    run(["git", *AUTHOR, "commit", "--quiet", "--all", "--message", f"Seed {seed}"], root)
    deployment = client.read_deployment_by_name(DEPLOYMENT)
    variables = {"env": {"TUNELINE_REPOSITORY": str(root)}}
    made = client.create_flow_run_from_deployment(deployment.id, job_variables=variables)
    while not (found := client.read_flow_run(made.id)).state.is_final():
        time.sleep(0.5)
    if not found.state.is_completed():
        sys.exit(f"the run failed: {found.state.message}")
    only = FlowRunFilter(id=FlowRunFilterId(any_=[found.id]))
    return seconds(made.created, found.end_time), phases(found, client.read_task_runs(flow_run_filter=only))


def phases(found: FlowRun, tasks: list[TaskRun]) -> dict[str, float]:
    """Return the seconds of the parts of a run."""
    stages = sorted((task for task in tasks if task.name not in BESIDE), key=lambda task: task.start_time)
    inside = sum(seconds(task.start_time, task.end_time) for task in stages)
    return {
        "until the flow starts (worker, process, imports)": seconds(found.created, found.start_time),
        "until the first stage (checkout, parameters, graph)": seconds(
            found.start_time, stages[0].start_time
        ),
        "tasks of the stages": inside,
        "between them": seconds(stages[0].start_time, stages[-1].end_time) - inside,
        "after the last (gate, commit, promotion)": seconds(stages[-1].end_time, found.end_time),
    }


def seconds(start: datetime, end: datetime) -> float:
    """Return the seconds between two times."""
    return (end - start).total_seconds()


def show(console: Console, repro: list[float], flows: list[float], parts: list[dict[str, float]]) -> None:
    """Print medians: the seconds of both ways, and the parts of the flow."""
    table = Table("way", "seconds", title=f"Small pipeline, medians of {len(parts)} rounds")
    table.add_row("dvc repro", f"{statistics.median(repro):.1f}")
    table.add_row("flow train", f"{statistics.median(flows):.1f}")
    console.print(table)
    table = Table("part of the flow", "seconds")
    for name in parts[0]:
        table.add_row(name, f"{statistics.median(part[name] for part in parts):.1f}")
    console.print(table)


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--port", type=int, default=4219, help="port of the server (default: %(default)s)")
    options = parser.parse_args()
    repro: list[float] = []
    flows: list[float] = []
    parts: list[dict[str, float]] = []
    with tempfile.TemporaryDirectory() as folder, prefect(Path(folder) / "prefect", options.port) as client:
        by_dvc, by_flow = (clone(Path(folder) / name) for name in ("dvc", "flow"))
        for seed in range(1, options.rounds + 1):
            repro.append(dvc_repro(by_dvc, seed))
            seconds_taken, part = flow(client, by_flow, seed)
            flows.append(seconds_taken)
            parts.append(part)
    show(Console(), repro, flows, parts)


if __name__ == "__main__":
    main()
