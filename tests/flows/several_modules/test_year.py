"""Sixty nights of a classifier that nobody looks after, on a real server with a real worker: new data every
seventh night, and faults.

Every night ingests, trains, scores and watches; every week cleans. The stages up to the data checks are the
real ones; a naive Bayes classifier learns the new words of each week, so that the gate has a reason to
promote it. A night is a day for the retention.
"""

import contextlib
import os
import random
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from uuid import UUID

import psutil
import pyarrow.parquet as pq
import pytest
from prefect.client.schemas.actions import DeploymentUpdate
from prefect.client.schemas.filters import FlowRunFilter, FlowRunFilterState, FlowRunFilterStateType
from prefect.client.schemas.objects import FlowRun, StateType
from ruamel.yaml import YAML

from flows.clean import DAY
from flows.promotion.registry import Registry
from flows.runs.repository import Repository
from flows.server.deploy import POOL
from tests.conftest import ROOT
from tests.dvc_files import add_remote, init_dvc
from tests.faults.disks import on_full_disk
from tests.flows.conftest import TOY, UNLIKE, sh
from tests.flows.prefect_server import Prefect, events, free_port, prefect_server, until
from tests.params import write_params
from tuneline.runtime.processes import ending

pytestmark = [pytest.mark.slow, pytest.mark.timeout(7200)]

NIGHTS = 60
WEEK = 7
KILLS = {14: "train", 21: "ingest", 28: "ingest", 40: "score", 50: "train"}
"""Night, and the flow whose run is killed outright."""
CUTS = {16: 10.0, 35: None, 44: 10.0}
"""Night, and the seconds that the git host is away from; ``None``: for as long as the night's runs last."""
DRIFT, FULL_DISK, ROLLBACK = 10, 42, 45
KEPT = {"branch_days": 14, "checkout_days": 14, "checkpoint_days": 7, "cache_days": 7}
"""Nights after which flow ``clean`` removes something."""

CLASSES = ("billing", "login", "other", "parcel")
SYLLABLES = [consonant + vowel for consonant in "bdfgklmnprstvz" for vowel in "aeiou"]
FILLERS = (
    "please help me with my order today it is late and broken thanks hello dear team the card account".split()
)

SETTINGS = {
    "stages": {"default": {"timeout_minutes": 5}},
    "git": {"retry_delay_seconds": [1, 2, 4, 8]},
    "promotion": {"take_over": "fast_forward"},
    "training": {"ref": "origin/main", "push": True},
    "ingest": {"push": True, "folder": "data/labelled"},
    "scoring": {"settle_seconds": 0, "drift": {"window_rows": 200}},
}


def word(number: int) -> str:
    draw = random.Random(f"word {number}")
    return "".join(draw.choice(SYLLABLES) for _ in range(4))


def texts(words: range, each: int, greeting: str = "") -> list[tuple[str, str]]:
    """Texts with one telling word each, and their classes."""
    draw = random.Random(f"{words} {each} {greeting}")
    rows = []
    for number in words:
        for _ in range(each):
            parts = [greeting, *draw.choices(FILLERS, k=4), word(number), *draw.choices(FILLERS, k=3)]
            rows.append((" ".join(filter(None, parts)), CLASSES[number % len(CLASSES)]))
    return rows


def write_csv(path: Path, header: str, lines: list[str]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("\n".join([header, *lines]) + "\n")


@dataclass
class GitHost:
    """A server of a folder of repositories, which can be away."""

    folder: Path
    port: int = field(default_factory=free_port)
    process: subprocess.Popen | None = None

    def start(self) -> None:
        options = [
            "--reuseaddr",
            "--export-all",
            "--enable=receive-pack",
            "--listen=127.0.0.1",
            f"--port={self.port}",
        ]
        self.process = subprocess.Popen(
            ["git", "daemon", *options, f"--base-path={self.folder}"], start_new_session=True
        )

    def stop(self) -> None:
        os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()


@dataclass
class Year:
    """The repository, its server and its worker.

    Attributes:
        began: When each night began, as a Unix time.
        troubles: What the runs that failed say, by night and deployment.
    """

    repository: Repository
    host: GitHost
    served: Prefect
    worker: subprocess.Popen
    began: list[float] = field(default_factory=list)
    troubles: dict[tuple[int, str], str] = field(default_factory=dict)

    @property
    def night(self) -> int:
        return len(self.began) - 1

    @property
    def registry(self) -> Registry:
        return Registry(self.repository, "onnx")

    def run(
        self, deployment: str, meanwhile: Callable[[UUID], object] = lambda _run: None, **parameters
    ) -> FlowRun:
        """Request a run, and wait for its end and for the end of what it starts."""
        run = self.served.submit(deployment, self.repository.root, **parameters)
        meanwhile(run)
        self.served.wait(run)
        self.wait_for_all()
        if (ended := self.served.run(run)).state.type != StateType.COMPLETED:
            self.troubles[self.night, deployment] = f"{ended.state.name}: {ended.state.message}"
        return ended

    def wait_for_all(self, seconds: float = 400) -> None:
        time.sleep(2)  # an automation takes a moment to start a run
        until(lambda: not self.active(), seconds, "all runs to end")

    def active(self) -> list[FlowRun]:
        types = [StateType.PENDING, StateType.RUNNING, StateType.CANCELLING]
        now = FlowRunFilter(
            state=FlowRunFilterState(
                type=FlowRunFilterStateType(any_=[*types, StateType.SCHEDULED, StateType.CRASHED])
            )
        )
        return [
            run for run in self.served.client.read_flow_runs(flow_run_filter=now) if not run.auto_scheduled
        ]

    def all_runs(self) -> list[FlowRun]:
        found: list[FlowRun] = []
        while page := self.served.client.read_flow_runs(limit=200, offset=len(found)):
            found += page
        return found

    def victim(self, flow: str) -> Callable[[UUID], object]:
        """What happens to tonight's run of a flow: nothing, or its death."""
        return self.kill if KILLS.get(self.night) == flow else lambda _run: None

    def kill(self, run: UUID) -> None:
        """Kill a run that has begun, in the middle of what it does."""

        def processes() -> list[psutil.Process]:
            found = []
            for process in psutil.process_iter():
                with contextlib.suppress(psutil.Error):
                    if process.environ().get("PREFECT__FLOW_RUN_ID") == str(run):
                        found.append(process)
            return found

        self.served.wait(run, "Running", "Completed", "NothingNew", "Failed")
        time.sleep(random.Random(self.night).uniform(0, 3))
        for process in processes():
            with contextlib.suppress(psutil.Error):
                process.kill()


@pytest.fixture
def year(tmp_path, homes) -> Iterator[Year]:
    root = tmp_path / "repo"
    make_repository(root)
    sh("git", "clone", "--quiet", "--bare", str(root), "origin", cwd=tmp_path)
    host = GitHost(tmp_path)
    host.start()
    sh("git", "remote", "add", "origin", f"git://127.0.0.1:{host.port}/origin", cwd=root)
    until(
        lambda: subprocess.run(["git", "ls-remote", "origin"], cwd=root, check=False).returncode == 0,
        30,
        "the git host",
    )
    with prefect_server(tmp_path / "prefect" / "home") as served:
        for deployment in served.client.read_deployments():
            job = {"env": {**deployment.job_variables.get("env", {}), "TUNELINE_REPOSITORY": str(root)}}
            served.client.update_deployment(deployment.id, DeploymentUpdate(job_variables=job, paused=True))
        yield Year(Repository(root), host, served, served.start_worker())
        host.stop()


def make_repository(root: Path) -> None:
    shutil.copytree(TOY.parent / "year", root, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copyfile(TOY / "toy.py", root / "toy.py")
    (root / ".gitignore").write_text(
        (TOY / "gitignore").read_text() + "/data/labelled/\n/data/inbox/\n/data/scored/\n/data/archive/\n"
    )
    data = {
        "source": "files",
        "path": "tickets",
        "text_columns": ["text"],
        "label_column": "label",
        "splits": {"train": "all"},
    }
    division = {"validation": 0.1, "test": 0.2, "by": None, "stratify": False}
    write_params(root, data={**data, "split": division}, tokenize={"vocab_size": 3000})
    write_settings(root, {})
    (root / "data" / "reference").mkdir(parents=True)
    (root / "data" / "reference" / ".gitkeep").touch()
    write_csv(
        root / "data/source/tickets/all.csv", "text,label", [",".join(row) for row in texts(range(100), 8)]
    )
    (root / "data" / "labelled").mkdir()
    sh("git", "init", "--quiet", "--initial-branch=main", cwd=root)
    sh("git", "config", "user.email", "tests@localhost", cwd=root)
    sh("git", "config", "user.name", "Tests", cwd=root)
    init_dvc(root)
    add_remote(root, root.parent / "shelf")
    sh("dvc", "add", "--quiet", "data/source/tickets", cwd=root)
    sh("git", "add", "--all", cwd=root)
    sh("git", "commit", "--quiet", "--message=Tickets of the first hundred words", cwd=root)


def write_settings(root: Path, retention: dict[str, float]) -> None:
    (root / "conf").mkdir(exist_ok=True)
    YAML(typ="safe", pure=True).dump({**SETTINGS, "retention": retention}, root / "conf" / "flows.yaml")


def live_through(year: Year) -> None:
    """Live through one night, with what goes wrong in it."""
    year.began.append(time.time())
    night, root = year.night, year.repository.root
    if night and night % WEEK == 0:
        week = night // WEEK
        rows = [",".join(row) for row in texts(range(60 + 40 * week, 100 + 40 * week), 5)]
        write_csv(root / f"data/labelled/week-{week}.csv", "text,label", rows)
    if night == FULL_DISK:
        with full_disk(year):
            year.run("ingest/ingest-daily")
    with git_host_away(year):
        year.run("ingest/ingest-daily", year.victim("ingest"))
        year.run("train/train-nightly", year.victim("train"))
    if night % 3 == 1:
        greeting = UNLIKE if night == DRIFT else ""
        write_csv(
            root / f"data/inbox/night-{night}.csv",
            "text",
            [text for text, _ in texts(range(100), 2, greeting)],
        )
        year.run("score/score-hourly", year.victim("score"))
    year.run("watch/watch-hourly")
    if night == ROLLBACK:
        command = ("python", "-m", "flows.promotion", "rollback", "--no-hold", "--reason", "Slow.")
        sh(*command, cwd=ROOT, env={"TUNELINE_REPOSITORY": str(root)})
    if night % WEEK == WEEK - 1:
        now = time.time()
        write_settings(
            root, {name: (now - year.began[max(0, night - nights)]) / DAY for name, nights in KEPT.items()}
        )
        year.run("clean/clean-weekly")


@contextlib.contextmanager
def full_disk(year: Year) -> Iterator[None]:
    """Replace the worker by one for which DVC's cache is on a disk with room for a few kilobytes."""
    with ending(year.worker):
        pass
    cache = year.repository.root / ".dvc" / "cache"
    command = (
        sys.executable,
        "-m",
        "prefect",
        "worker",
        "start",
        "--pool",
        POOL,
        "--name",
        "small-disk",
    )
    with ending(
        subprocess.Popen(
            on_full_disk(cache, 8, *command), cwd=ROOT, env=year.served.env, start_new_session=True
        )
    ):
        yield
    year.worker = year.served.start_worker()


@contextlib.contextmanager
def git_host_away(year: Year) -> Iterator[None]:
    """Let the git host be away as long as ``CUTS`` says for the night."""
    if year.night not in CUTS:
        yield
        return
    year.host.stop()
    seconds = CUTS[year.night]
    back = threading.Timer(seconds or 0, year.host.start)
    if seconds:
        back.start()
    yield
    back.join() if seconds else year.host.start()


def size_mb(folder: Path) -> float:
    return (
        sum(path.stat().st_size for path in folder.rglob("*") if path.is_file() and not path.is_symlink())
        / 1e6
    )


def counts(year: Year) -> dict[str, float]:
    """What the year left behind."""
    root, told = (
        year.repository.root,
        ("model.promoted", "model.rejected", "data.ingested", "data.refused", "data.drifted"),
    )
    alerts = ("watch.alert",)
    refs = {"branches": "refs/heads/runs", "tags": "refs/tags"}
    return {
        **{
            f"{what} here": len(sh("git", "for-each-ref", ref, cwd=root).splitlines())
            for what, ref in refs.items()
        },
        **{
            f"{what} in origin": len(sh("git", "for-each-ref", ref, cwd=root.parent / "origin").splitlines())
            for what, ref in refs.items()
        },
        "checkouts": len([*year.repository.state.glob("*/.git")]),
        "cache MB": size_mb(root / ".dvc" / "cache"),
        "state MB": size_mb(year.repository.state),
        "server MB": size_mb(year.served.logs),
        **{name: len(events(year.served, f"tuneline.{name}")) for name in (*told, *alerts)},
        "crashed for ever": len([run for run in year.all_runs() if run.state.is_crashed()]),
    }


EXACT = {
    "tags here": (
        9 + 10
    ),  # a version for the first training and each of eight weeks, their assignments and the rollback's
    "tags in origin": 9 + 10,
    "model.promoted": 9,
    "model.rejected": 0,
    "data.ingested": 8,
    "data.refused": 0,
    "data.drifted": 1,
    "watch.alert": 0,
    "crashed for ever": 0,
}
AT_MOST = {
    "branches here": 14 + 7,
    "branches in origin": 14 + 7,
    "checkouts": 3,
    "cache MB": 15,
    "state MB": 30,
    "server MB": 200,
}


@pytest.mark.promise("sixty-nights")
def test_sixty_nights_with_new_data_and_faults_end_as_the_table_says(year):
    for _ in range(NIGHTS):
        live_through(year)
        print(
            f"night {year.night}: {time.time() - year.began[-1]:.0f} s",
            [f"{one.name}" for one in year.registry.tags().versions][-1:],
        )
    left = counts(year)
    print(left, year.troubles)
    assert {what: number for what, number in left.items() if number != EXACT.get(what, number)} == {}
    assert {what: number for what, number in left.items() if number > AT_MOST.get(what, number)} == {}
    assert year.registry.in_stage("production").name == "v0.9.0"
    root = year.repository.root
    scored = [pq.read_table(path).num_rows for path in (root / "data/scored").glob("*.parquet")]
    assert scored == [200] * 20, "each file once"
    assert [*(root / "data/inbox").iterdir()] == []
    merged = sh("git", "show", "main:dvc.lock", cwd=root.parent / "origin")
    assert merged == sh(
        "git",
        "show",
        "v0.9.0:dvc.lock".replace("v0.9.0", year.registry.in_stage("production").commit),
        cwd=root,
    )
    sh("git", "fsck", "--no-dangling", cwd=root)
