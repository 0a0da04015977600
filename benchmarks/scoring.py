"""Measure flow ``score`` on many small files.

The Prefect server is a real one (SQLite), the model that of the tests' small pipeline.

Only the run of the flow is measured: the start of its process by a worker takes the same time for any number
of files. Run ``python -m benchmarks.scoring --files 8 300`` in the root of the project, with nothing else
running on the machine.
"""

import argparse
import os
import secrets
import shutil
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from prefect.events.worker import EventsWorker
from prefect.logging.handlers import APILogWorker
from prefect.settings import PREFECT_API_AUTH_STRING, PREFECT_API_URL, temporary_settings
from rich.console import Console
from rich.table import Table

from flows.promotion.registry import Registry
from flows.runs.pipeline import Pipeline
from flows.runs.processes import Programs
from flows.runs.repository import REPOSITORY_VARIABLE, Repository
from flows.score import score
from flows.server import schedule

SMALL = Path(__file__).parents[1] / "tests" / "flows" / "toy"


def make_repository(root: Path) -> Path:
    """Run the small pipeline in a repository of its own, and put its model into production."""
    shutil.copytree(SMALL, root, ignore=shutil.ignore_patterns("__pycache__"))
    (root / "gitignore").rename(root / ".gitignore")
    repository = Repository(root)
    repository.git("init", "--quiet", "--initial-branch=main")
    programs = Programs(root, "benchmark")
    pipeline = Pipeline(programs, print)
    pipeline.dvc("init", "--quiet", what="dvc init")
    pipeline.dvc("repro", "--quiet", what="dvc repro")
    repository.git("add", "--all")
    repository.git("commit", "--quiet", "--message=A model")
    Registry(repository, "onnx").promote(repository.resolve("HEAD"), "production", "for the benchmark")
    return root


@contextmanager
def prefect(home: Path, port: int) -> Iterator[None]:
    """Run a server, and use it."""
    login = f"benchmark:{secrets.token_hex(16)}"
    served = schedule.settings(port, login)
    env = {**served, "PREFECT_HOME": str(home), "PREFECT_SERVER_UI_ENABLED": "false"}
    home.mkdir()
    client = {PREFECT_API_URL: env["PREFECT_API_URL"], PREFECT_API_AUTH_STRING: login}
    with (
        (home / "log").open("w") as log,
        schedule.server(port, env, stdout=log, stderr=log),
        temporary_settings(client),
    ):
        yield


def put(inbox: Path, files: int, rows: int) -> None:
    """Put files into the inbox that changed a minute ago."""
    inbox.mkdir(parents=True, exist_ok=True)
    for number in range(files):
        path = inbox / f"{files}-{number}.csv"
        path.write_text("\n".join(["text", *(f"please help w{row}" for row in range(rows))]) + "\n")
        os.utime(path, (time.time() - 60,) * 2)


def run() -> float:
    """Run the flow and return its seconds; exit if it fails."""
    started = time.perf_counter()
    state = score(return_state=True)
    seconds = time.perf_counter() - started
    for service in (EventsWorker, APILogWorker):
        service.drain_all(timeout=60)  # the server waits for its clients before it ends
    if not state.is_completed():
        sys.exit(f"the run failed: {state.message}")
    return seconds


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--files", type=int, nargs="+", default=[8, 300])
    parser.add_argument("--rows", type=int, default=20, help="rows of each file")
    parser.add_argument("--port", type=int, default=4210)
    options = parser.parse_args()
    table = Table(
        "files", "seconds", "seconds per file", title=f"One run of flow score, files of {options.rows} rows"
    )
    with tempfile.TemporaryDirectory() as folder, prefect(Path(folder) / "prefect", options.port):
        root = make_repository(Path(folder) / "repository")
        os.environ[REPOSITORY_VARIABLE] = str(root)
        for count in [1, *options.files]:  # the first fetches the model
            put(root / "data" / "inbox", count, options.rows)
            seconds = run()
            table.add_row(str(count), f"{seconds:.1f}", f"{seconds / count:.2f}")
    Console().print(table)


if __name__ == "__main__":
    main()
