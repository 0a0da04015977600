"""The units for systemd: valid, as their own tools say, and installed without showing anybody a secret."""

import dataclasses
import os
import pwd
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from flows.server import systemd
from flows.server.worker import RUNS_END_WITHIN, WORKER_ENDS_WITHIN
from tests.conftest import ROOT

ANALYZE = shutil.which("systemd-analyze")
NEWER = ("RestartSteps", "RestartMaxDelaySec")
"""Keys that systemd has since 254; older versions say that they ignore them."""


@pytest.fixture(params=[None, pwd.getpwuid(os.getuid()).pw_name], ids=["user", "machine"])
def place(request, tmp_path) -> systemd.Place:
    target = "multi-user.target" if request.param else "default.target"
    return systemd.Place(tmp_path / "units", tmp_path / "variables", "systemctl", target, request.param)


@pytest.mark.skipif(ANALYZE is None, reason="systemd-analyze is not installed")
@pytest.mark.parametrize("what", systemd.ENDS_WITHIN)
def test_systemd_accepts_the_unit(place, what):
    systemd.install(what, place, systemd.unit(what, place, ["--name", "a b"]))
    (file,) = place.units.iterdir()
    done = subprocess.run([ANALYZE, "verify", file], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert [line for line in done.stderr.splitlines() if not any(key in line for key in NEWER)] == []


def test_installing_again_replaces_the_unit_and_keeps_the_variables(place):
    said = systemd.install("serve", place, systemd.unit("serve", place, []))
    variables = place.environment / "tuneline.env"
    assert variables.stat().st_mode & 0o777 == 0o600
    assert str(variables) in said
    variables.write_text("HF_TOKEN=hidden\n")
    systemd.install("serve", place, systemd.unit("serve", place, ["--port", "4201"]))
    assert '"--port" "4201"' in (place.units / "tuneline.service").read_text()
    assert variables.read_text() == "HF_TOKEN=hidden\n"


def test_variables_that_others_can_read_are_refused(place):
    place.environment.mkdir()
    (place.environment / "tuneline.env").touch(mode=0o644)
    with pytest.raises(SystemExit, match="chmod 600"):
        systemd.install("serve", place, "")
    assert not place.units.exists()


def test_nothing_in_paths_and_arguments_is_replaced(place, monkeypatch):
    monkeypatch.setattr(systemd, "ROOT", Path("/srv/100% ours"))
    place = dataclasses.replace(place, environment=Path("/etc/50%"))
    lines = systemd.unit("worker", place, ["--name", 'the "$HOME" \\ %h']).splitlines()
    assert "WorkingDirectory=/srv/100%% ours" in lines
    assert "EnvironmentFile=-/etc/50%%/tuneline-worker.env" in lines
    assert lines[[line.startswith("ExecStart=") for line in lines].index(True)].endswith(r'"--name" "the \"$$HOME\" \\ %%h"')


def test_worker_has_time_to_end_its_runs():
    assert systemd.ENDS_WITHIN["worker"] > RUNS_END_WITHIN + WORKER_ENDS_WITHIN
    assert systemd.ENDS_WITHIN["serve"] > 2 * 60, "the worker, then the server (serve.ending)"


def test_unit_is_printed_and_not_written(tmp_path):
    command = [sys.executable, "-m", "flows.server.systemd", "serve", "--print", "--", "--port", "4201"]
    done = subprocess.run(command, cwd=ROOT, env={"XDG_CONFIG_HOME": str(tmp_path)}, capture_output=True, text=True, check=True)
    assert f"WorkingDirectory={ROOT}\n" in done.stdout
    assert '"--port" "4201"\n' in done.stdout
    assert list(tmp_path.iterdir()) == []
