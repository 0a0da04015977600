"""Measure what the stages take outside training: the seconds of each stage, and of its imports.

Beside them is the plain import of torch and transformers.

Every command of ``dvc.yaml`` runs in a copy of the project. In the first round it also runs with Python's
import timer, whose slower run gives only the imports. Then ``dvc repro --force`` runs all stages: what it
takes longer than they did is DVC's own. The steps of training (``training_seconds`` in
``reports/timing/train.json``) are subtracted. CPU seconds suffer less from other load. Run ``python -m
benchmarks.overhead`` in the root of a project whose pipeline has run, with nothing else running on the
machine; ``--project FOLDER`` measures another checkout, such as one of an earlier commit, with the libraries
of this environment.
"""

import argparse
import json
import math
import os
import re
import resource
import shlex
import shutil
import statistics
import subprocess
import tempfile
import time
from pathlib import Path
from typing import NamedTuple

from rich.console import Console
from rich.table import Table
from ruamel.yaml import YAML

IMPORT = re.compile(r"^import time: +\d+ \| +(\d+) \| (\S+)$", re.MULTILINE)
"""A line of the import timer about a module that no other module imported: microseconds, name.

Its name is not indented.
"""
PLAIN_IMPORT = "import torch, transformers.models.bert.modeling_bert"
OUTS = ("data", "models", "metrics", "reports", "plots")
BETWEEN, PLAIN = "dvc, beside the stages", "plain import of torch and transformers"


class Cost(NamedTuple):
    """Seconds of a command."""

    wall: float
    cpu: float


def copy_project(project: Path, folder: Path) -> None:
    """Copy what git tracks and what the pipeline wrote, without checkpoints and caches."""
    tracked = subprocess.run(
        ["git", "ls-files", "-z"], cwd=project, capture_output=True, text=True, check=True
    ).stdout
    for name in filter(None, tracked.split("\0")):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(project / name, folder / name)
    for name in OUTS:
        shutil.copytree(project / name, folder / name, dirs_exist_ok=True)
    subprocess.run(["git", "init", "--quiet"], cwd=folder, check=True)
    identity = ["-c", "user.name=benchmark", "-c", "user.email=benchmark@localhost"]
    subprocess.run(
        ["git", *identity, "commit", "--quiet", "--allow-empty", "--message", "Start"], cwd=folder, check=True
    )


def run(command: str, folder: Path, **variables: str) -> tuple[Cost, str]:
    """Run a command in a folder and return its cost and its standard error.

    Raises:
        SystemExit: The command failed.
    """
    environment = {**os.environ, "PYTHONPATH": str(folder), "DVC_NO_ANALYTICS": "1", **variables}
    before, started = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    done = subprocess.run(
        shlex.split(command), cwd=folder, env=environment, capture_output=True, text=True, check=False
    )
    wall, after = time.perf_counter() - started, resource.getrusage(resource.RUSAGE_CHILDREN)
    if done.returncode:
        raise SystemExit(
            "\n".join(
                [command, *(line for line in done.stderr.splitlines() if not line.startswith("import time:"))]
            )
        )
    return Cost(wall, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime), done.stderr


def import_seconds(stderr: str) -> float:
    """Return the seconds of all imports, from the output of the import timer."""
    return sum(int(microseconds) for microseconds, _ in IMPORT.findall(stderr)) / 1e6


def training_seconds(folder: Path) -> float:
    """Return the seconds of the steps of the last training."""
    timing = json.loads((folder / "reports/timing/train.json").read_text(encoding="utf-8"))
    return float(timing["training_seconds"])


def commands(folder: Path) -> dict[str, str]:
    """Return the command that makes the outs of each stage: of several, the last one."""
    pipeline = YAML(typ="safe", pure=True).load(folder / "dvc.yaml")
    found = {name: stage["cmd"] for name, stage in pipeline["stages"].items()}
    return {name: command if isinstance(command, str) else command[-1] for name, command in found.items()}


def measure_round(folder: Path) -> dict[str, Cost]:
    """Run every stage, then all of them with DVC, and return the cost outside training.

    The CPU seconds of the stage ``train`` include its steps, which use several cores; they are not returned
    (NaN).
    """
    costs = {}
    for name, command in commands(folder).items():
        cost, _ = run(command, folder)
        costs[name] = Cost(cost.wall - training_seconds(folder), float("nan")) if name == "train" else cost
    of_stages = sum(cost.wall for cost in costs.values())
    cost, _ = run("dvc repro --force", folder)
    costs[BETWEEN] = Cost(cost.wall - training_seconds(folder) - of_stages, float("nan"))
    costs[PLAIN], _ = run(f"python -c {shlex.quote(PLAIN_IMPORT)}", folder)
    return costs


def measure_imports(folder: Path) -> dict[str, float]:
    """Return the seconds that each stage takes to import modules."""
    return {
        name: import_seconds(run(command, folder, PYTHONPROFILEIMPORTTIME="1")[1])
        for name, command in commands(folder).items()
    }


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--project", type=Path, default=Path())
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as place:
        copy_project(options.project.resolve(), Path(place))
        imports = measure_imports(Path(place))
        rounds = [measure_round(Path(place)) for _ in range(options.rounds)]
    table = Table(
        "stage",
        "seconds",
        "CPU seconds",
        "imports",
        title=f"outside training, median of {options.rounds}",
        title_justify="left",
    )
    total = 0.0
    for name in rounds[0]:
        wall, cpu = (
            statistics.median(values) for values in zip(*(costs[name] for costs in rounds), strict=True)
        )
        total += 0 if name == PLAIN else wall
        table.add_row(
            name,
            f"{wall:.1f}",
            "" if math.isnan(cpu) else f"{cpu:.1f}",
            f"{imports[name]:.1f}" if name in imports else "",
        )
    table.add_section()
    table.add_row("all, outside training", f"{total:.1f}")
    Console(width=100).print(table)


if __name__ == "__main__":
    main()
