"""A Prefect server and workers of the tests' own: free port, SQLite in a temporary folder, real processes."""

import contextlib
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from uuid import UUID

import psutil
from prefect.client.orchestration import SyncPrefectClient, get_client
from prefect.client.schemas.filters import (
    DeploymentFilter,
    DeploymentFilterId,
    FlowRunFilter,
    FlowRunFilterId,
    LogFilter,
    LogFilterFlowRunId,
)
from prefect.client.schemas.objects import FlowRun, State, TaskRun
from prefect.events.filters import EventFilter, EventNameFilter
from prefect.settings import PREFECT_API_AUTH_STRING, PREFECT_API_URL, temporary_settings
from prefect.states import Cancelling

from tuneline.core.repository.programs import RUN_VARIABLE
from tuneline.core.runtime.processes import ending
from tuneline.operations.server import schedule
from tuneline.operations.server.deploy import POOL

LOGIN = "tests:t0p-s3cret"


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def until(condition: Callable[[], Any], seconds: float, what: str) -> Any:
    """Waits for something that comes true, and returns it."""
    deadline = time.monotonic() + seconds
    while not (found := condition()):
        assert time.monotonic() < deadline, f"waited {seconds:.0f} s in vain for {what}"
        time.sleep(0.2)
    return found


@dataclass
class Prefect:
    """The server, as a test sees it."""

    env: dict[str, str]
    logs: Path
    client: SyncPrefectClient
    workers: list[subprocess.Popen] = field(default_factory=list)

    @property
    def api(self) -> str:
        return self.env["PREFECT_API_URL"]

    def start_worker(self) -> subprocess.Popen:
        """Starts a worker.

        A run that names no repository of a test's fails: it must not train and promote in that of the user.
        """
        env = {**self.env, "TUNELINE_REPOSITORY": str(self.logs / "no-repository")}
        del env[
            "PREFECT_FLOWS_HEARTBEAT_FREQUENCY"
        ]  # the deployments bring it, for a worker that `prefect worker start` starts, too
        with (self.logs / f"worker-{len(self.workers)}.log").open("w") as log:
            name = f"worker-{len(self.workers)}"
            command = [sys.executable, "-m", "prefect", "worker", "start", "--pool", POOL, "--name", name]
            self.workers.append(schedule.start_apart(command, env, stdout=log, stderr=log))
        return self.workers[-1]

    def stop_workers(self) -> None:
        for worker in self.workers:
            with ending(worker):
                pass

    def submit(self, deployment: str, root: Path, **parameters: Any) -> UUID:
        """Asks for a run of a deployment on a repository of the test's."""
        found = self.client.read_deployment_by_name(deployment)
        env = {"env": {"TUNELINE_REPOSITORY": str(root)}}
        return self.client.create_flow_run_from_deployment(
            found.id, parameters=parameters, job_variables=env
        ).id

    def run(self, run: UUID) -> FlowRun:
        return self.client.read_flow_run(run)

    def wait(self, run: UUID, *states: str, seconds: float = 400) -> FlowRun:
        """Waits until a run is in one of some states; in a final one by default."""

        def arrived() -> FlowRun | None:
            found = self.run(run)
            return found if (found.state.name in states if states else found.state.is_final()) else None

        return until(
            arrived,
            seconds,
            f"run {run} to be {' or '.join(states) or 'over'}: {self.run(run).state}; {self.said(run)[-20:]}",
        )

    def runs_of(self, deployment: UUID, *states: str) -> list[FlowRun]:
        only = DeploymentFilter(id=DeploymentFilterId(any_=[deployment]))
        found = self.client.read_flow_runs(deployment_filter=only)
        return [run for run in found if not states or run.state.name in states]

    def states(self, run: UUID) -> list[State]:
        return self.client.read_flow_run_states(run)

    def tasks(self, run: UUID, *recorded: str) -> dict[str, TaskRun]:
        """Returns the tasks of a run by name; the server records them late, so waits for those named."""
        only = FlowRunFilter(id=FlowRunFilterId(any_=[run]))

        def found() -> dict[str, TaskRun]:
            tasks = {task.name: task for task in self.client.read_task_runs(flow_run_filter=only)}
            return tasks if tasks.keys() >= set(recorded) else {}

        if recorded:
            return until(found, 20, f"the tasks {recorded} of run {run}")
        return found()

    def said(self, run: UUID) -> list[str]:
        """The run's log, as the API has it."""
        return [
            log.message
            for log in self.client.read_logs(LogFilter(flow_run_id=LogFilterFlowRunId(any_=[run])))
        ]

    def wait_for_line(self, run: UUID, text: str, seconds: float = 20) -> list[str]:
        """Waits until a line of the run's log contains a text, and returns the log: lines are sent in
        batches, also after the end."""

        def arrived() -> list[str]:
            said = self.said(run)
            return said if any(text in line for line in said) else []

        return until(arrived, seconds, f"the log of run {run} to say {text!r}")

    def cancel(self, run: UUID) -> None:
        self.client.set_flow_run_state(run, Cancelling())


def processes_of(run: FlowRun) -> list[str]:
    """Command lines of all that a run started and that still runs."""
    found = []
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error):
            if (
                process.environ().get(RUN_VARIABLE, "").startswith(run.name)
                and process.status() != psutil.STATUS_ZOMBIE
            ):
                found.append(" ".join(process.cmdline()))
    return found


def flow_process(run: FlowRun) -> psutil.Process:
    """The process that runs a flow: the parent of what supervises its program."""
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error):
            ours = process.environ().get(RUN_VARIABLE, "").startswith(run.name)
            if ours and (parent := process.parent()) and RUN_VARIABLE not in parent.environ():
                return parent
    raise AssertionError(f"run {run.name} has no process")


def heartbeats(served: Prefect, run: UUID) -> list[dict[str, Any]]:
    """Events by which a run told that it is alive, the latest first."""
    wanted = {
        "filter": {
            "event": {"name": ["prefect.flow-run.heartbeat"]},
            "resource": {"id": [f"prefect.flow-run.{run}"]},
        }
    }
    return served.client.request("POST", "/events/filter", json=wanted).json()["events"]


def events(served: Prefect, name: str, run: UUID | None = None) -> list[dict[str, Any]]:
    """Events of a name that the server has, the latest first; those that one run emitted where it is
    given."""
    wanted = EventFilter(event=EventNameFilter(name=[name]))
    found = served.client.request(
        "POST", "/events/filter", json={"filter": wanted.model_dump(mode="json")}
    ).json()["events"]
    emitter = f"prefect.flow-run.{run}"
    return [
        one
        for one in found
        if run is None or emitter in [related["prefect.resource.id"] for related in one["related"]]
    ]


def started_with(name: str, value: str) -> list[psutil.Process]:
    """Every process with a variable in its environment."""
    found = []
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error):
            if process.environ().get(name) == value and process.status() != psutil.STATUS_ZOMBIE:
                found.append(process)
    return found


def kill_outright(process: subprocess.Popen) -> None:
    process.send_signal(signal.SIGKILL)
    process.wait()


@contextlib.contextmanager
def prefect_server(home: Path, **settings: str) -> Iterator[Prefect]:
    """Serves, with work pool, deployments and automations as ``python -m
    tuneline.operations.server.schedule`` makes them; without a worker."""
    port = free_port()
    home.mkdir(parents=True, exist_ok=True)
    env = {
        **schedule.settings(port, LOGIN),
        "PREFECT_HOME": str(home),
        "PREFECT_WORKER_QUERY_SECONDS": "1",
        "PREFECT_SERVER_SERVICES_SCHEDULER_LOOP_SECONDS": "5",
        "PREFECT_SERVER_SERVICES_EVENT_PERSISTER_FLUSH_INTERVAL": "1",
        "PREFECT_SERVER_UI_ENABLED": "false",
        **settings,
    }
    with (
        (home / "server.log").open("w") as log,
        schedule.server(port, env, stdout=log, stderr=log),
        ending(
            schedule.start_apart(
                [sys.executable, "-m", "tuneline.operations.server.crashes"], env, stdout=log, stderr=log
            )
        ),
    ):
        schedule.deploy(env)
        with (
            temporary_settings({PREFECT_API_URL: env["PREFECT_API_URL"], PREFECT_API_AUTH_STRING: LOGIN}),
            get_client(sync_client=True) as client,
        ):
            served = Prefect(env, home, client)
            try:
                yield served
            finally:
                served.stop_workers()
