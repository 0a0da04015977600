"""No library looks a name up, or leaves an id on the disk, because of telemetry."""

import ast
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.conftest import ROOT
from tests.faults.networks import recording_lookups
from tests.project import SMALL, Project
from tuneline import NO_TELEMETRY

SWITCHES = {*NO_TELEMETRY, "CI", "GITHUB_ACTIONS", "HF_HUB_OFFLINE"}
"""Variables that may keep a library silent. None is set in these tests: what we start must set its own."""
ENTRY_POINTS = [
    "tuneline",
    *(
        pytest.param(name, marks=pytest.mark.slow)
        for name in ("tuneline.cli", "stages", "flows", "benchmarks")
    ),
]
"""All import ``tuneline`` first, which sets the switches; the next test shows it of the others."""
LIBRARIES = ["onnxruntime", "prefect.client.orchestration", "gto.api"]


def silent(tmp_path: Path, *command: str, cwd: Path = ROOT) -> tuple[list[str], list[str]]:
    """Run a command and return the names that it looked up, and the files that it wrote into the home
    folder."""
    home, record = tmp_path / "user", tmp_path / "names.json"
    home.mkdir()
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    kept = {
        name: value
        for name, value in os.environ.items()
        if name not in SWITCHES and not name.startswith("XDG_")
    }
    env = {**kept, "HOME": str(home), "PATH": path, "PYTHONPATH": str(cwd)}
    done = subprocess.run(
        recording_lookups(record, *command), cwd=cwd, env=env, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return json.loads(record.read_text()), [
        str(file.relative_to(home)) for file in home.rglob("*") if file.is_file()
    ]


@pytest.mark.parametrize("entry_point", ENTRY_POINTS)
def test_entry_point_turns_telemetry_off_before_its_libraries(tmp_path, entry_point):
    """ONNX Runtime writes a device id at import and looks its host up 12 s later: too long to wait for it in
    each test."""
    script = f"import importlib, {entry_point}\nfor name in {LIBRARIES}: importlib.import_module(name)"
    assert silent(tmp_path, sys.executable, "-c", script) == ([], [])


def test_every_entry_point_sets_the_switches_when_it_is_imported():
    names = ["tuneline.cli", "stages", "flows", "benchmarks"]
    kept = {name: value for name, value in os.environ.items() if name not in SWITCHES}
    script = "import importlib, os, sys; importlib.import_module(sys.argv[1]); print({**os.environ})"
    for name in names:
        done = subprocess.run(
            [sys.executable, "-c", script, name],
            cwd=ROOT,
            env=kept,
            capture_output=True,
            text=True,
            check=True,
        )
        assert NO_TELEMETRY.items() <= ast.literal_eval(done.stdout).items(), name


@pytest.mark.slow  # the pipeline, in a minute or two
def test_pipeline_and_command_line_look_no_name_up(tmp_path):
    """DVC, every stage with all libraries that it imports, and the commands: for real, and longer than
    telemetry waits."""
    project = Project.copy_to(tmp_path / "project")
    project.set_params(SMALL)
    project.commit("Small")
    (project.folder / "new.csv").write_text(
        "subject,body\nInvoice,The parcel came but the invoice is wrong\n"
    )
    script = "dvc repro --quiet && tuneline report && tuneline show && tuneline predict new.csv && sleep 15"
    names, _ = silent(tmp_path, "sh", "-c", script, cwd=project.folder)
    assert names == []
