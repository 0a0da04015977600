"""A folder with parameters, and small files to start from."""

import shutil
import subprocess
import sys

import pytest

from tests.params import write_params
from tests.tuneline.operations.adoption.tiny_checkpoint import write_checkpoint
from tuneline.core.params.loading import load_params
from tuneline.operations.adoption.planning import make_plan
from tuneline.operations.adoption.rows import read_files
from tuneline.rows.proposals.readings import UserChoices

TICKETS = [
    ("the parcel never came", "delivery"),
    ("Where is my parcel?", "delivery"),
    ("it arrived broken, in two pieces", "damage"),
    ("the box was crushed", "damage"),
]


def planned(path, **choices):
    """Return the plan for a file, with what the user said."""
    params = load_params()
    return make_plan(read_files([path], None, None, params.data), UserChoices(**choices), params)


@pytest.fixture
def project(tmp_path, root, monkeypatch):
    """An empty project with parameters; the working directory."""
    write_params(tmp_path)
    shutil.copytree(root / "conf/accelerate", tmp_path / "conf/accelerate")
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def checkpoint(project):
    """Name of a checkpoint folder in the project."""
    return write_checkpoint(project / "models/source/tiny").relative_to(project).as_posix()


@pytest.fixture
def run_tuneline(root):
    """Run the command in a process of its own: the client of the hub reads its address when it is
    imported."""

    def run(*words, env):
        command = [sys.executable, "-c", "from tuneline.cli import app; app()", *map(str, words)]
        env = {**env, "PYTHONPATH": str(root)}
        return subprocess.run(command, capture_output=True, text=True, check=False, env=env)

    return run


@pytest.fixture
def tickets(project):
    """A CSV of 40 tickets, sorted by label as exports often are."""
    rows = sorted(
        ((f"{text} ({number})", label) for number in range(10) for text, label in TICKETS),
        key=lambda row: row[1],
    )
    path = project / "tickets.csv"
    path.write_text(
        "id,text,label\n"
        + "".join(f'{number},"{text}",{label}\n' for number, (text, label) in enumerate(rows))
    )
    return path
