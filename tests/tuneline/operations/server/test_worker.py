"""A worker's clone of the pipeline's repository: complete or absent, up to date, shared by the workers of one
machine."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from tests.conftest import ROOT
from tests.flows.conftest import sh
from tests.flows.prefect_server import until
from tuneline.core.repository.dvc import dvc_config
from tuneline.core.repository.git import GitError
from tuneline.operations.server import worker


@pytest.fixture
def origin(tmp_path, monkeypatch):
    """A repository with what makes one a line's, and a place for a worker's clone of it."""
    root = tmp_path / "origin"
    (root / "conf").mkdir(parents=True)
    (root / ".dvc").mkdir()
    (root / ".dvc" / "config").write_text("[core]\n    analytics = false\n")
    (root / ".dvc" / ".gitignore").write_text("/config.local\n/tmp\n/cache\n")
    sh("git", "init", "--quiet", "--initial-branch=main", cwd=root)
    save(root, attempts=4)
    monkeypatch.setenv("TUNELINE_ORIGIN", str(root))
    monkeypatch.setenv("TUNELINE_REPOSITORY", str(tmp_path / "volume" / "line"))
    return root


def save(root, attempts):
    (root / "conf" / "flows.yaml").write_text(f"lock_wait_seconds: {attempts}\n")
    sh("git", "add", "--all", cwd=root)
    sh("git", "commit", "--quiet", "--message=Settings", cwd=root)


def settings_of(repository) -> str:
    return (repository.root / "conf" / "flows.yaml").read_text()


def test_missing_clone_is_created_with_its_remotes(origin, tmp_path, monkeypatch):
    monkeypatch.setenv("TUNELINE_DVC_REMOTE", str(tmp_path / "artifacts"))
    repository = worker.prepare_repository()
    assert repository.root == tmp_path / "volume" / "line"
    assert repository.resolve("origin/main") == sh("git", "rev-parse", "main", cwd=origin).strip()
    config = dvc_config(repository.root)
    assert config["remote"][config["core"]["remote"]]["url"] == str(tmp_path / "artifacts")
    assert sh("git", "status", "--porcelain", cwd=repository.root) == ""


def test_settings_are_updated_from_origin_at_start(origin):
    worker.prepare_repository()
    save(origin, attempts=7)
    assert settings_of(worker.prepare_repository()) == "lock_wait_seconds: 7\n"


def test_worker_starts_without_origin(origin, capsys):
    worker.prepare_repository()
    origin.rename(origin.with_name("away"))
    assert settings_of(worker.prepare_repository()) == "lock_wait_seconds: 4\n"
    assert "Continuing with the clone as it is" in capsys.readouterr().err


def test_run_enters_the_folder_in_which_its_worker_was_started(tmp_path, monkeypatch):
    monkeypatch.chdir(ROOT)
    environment = worker.worker_settings({worker.FLOWS: "/another/worker"})
    monkeypatch.setenv(worker.FLOWS, environment[worker.FLOWS])
    monkeypatch.chdir(tmp_path)
    assert worker.enter() == {"directory": str(ROOT)}
    assert Path.cwd() == ROOT


def test_worker_in_another_folder_names_what_it_lacks(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SystemExit, match=rf"{tmp_path} has no prefect\.yaml"):
        worker.main()


STORES_A_FLOW = "from prefect.runner import Runner; Runner()._tmp_dir.mkdir(parents=True)"


def test_worker_needs_nothing_of_the_temporary_folder_of_others(origin, tmp_path):
    """Prefect's folder in it is that of the first user; here, nobody can make a folder in it."""
    (tmp_path / "runner_storage").touch()
    code = (
        "import subprocess; from tuneline.operations.server import worker;"
        f" worker.run_worker = lambda command: subprocess.call([command[0], '-c', {STORES_A_FLOW!r}]);"
        " worker.main()"
    )
    env = {**os.environ, "PYTHONPATH": str(ROOT), "TMPDIR": str(tmp_path)}
    assert subprocess.run([sys.executable, "-c", code], env=env, cwd=ROOT, check=False).returncode == 0
    assert not list(tmp_path.glob("tuneline-*"))


def test_clone_does_not_remove_other_files(origin, tmp_path):
    (tmp_path / "volume" / "line").mkdir(parents=True)
    (tmp_path / "volume" / "line" / "thesis.txt").write_text("years of work")
    with pytest.raises(GitError, match="a clone nor empty"):
        worker.prepare_repository()
    assert (tmp_path / "volume" / "line" / "thesis.txt").exists()


@pytest.mark.parametrize("name", ["TUNELINE_ORIGIN", "TUNELINE_DVC_REMOTE"])
def test_password_of_a_refused_address_is_not_printed(origin, monkeypatch, capfd, name):
    monkeypatch.setenv(name, "https://me:s3cret@[127.0.0.1:9/line.git")
    with pytest.raises(SystemExit) as end:
        worker.main()
    assert "https://***@[127.0.0.1:9/line.git" in str(end.value)
    assert "s3cret" not in str(end.value) + "".join(capfd.readouterr())


LEAVES_A_RUN = """
import os, signal, subprocess, sys, time
subprocess.Popen([sys.executable, "-c", '''
import os, pathlib, time
parent = os.getppid()
pathlib.Path("began").touch()
while os.getppid() == parent:
    time.sleep(0.1)
time.sleep(1)
pathlib.Path("saved").touch()
'''], start_new_session=True)
signal.signal(signal.SIGTERM, lambda *_: os._exit(0))
time.sleep(60)
"""


@pytest.mark.promise("stopped-worker")
def test_stopped_worker_waits_until_its_runs_have_saved(tmp_path):
    """As Prefect's worker does, the program ends at once; what it started notices that and needs a second."""
    code = (
        "import sys; from tuneline.operations.server.worker import run_worker;"
        " sys.exit(run_worker([sys.executable, '-c',"
        f" {LEAVES_A_RUN!r}]))"
    )
    with subprocess.Popen(
        [sys.executable, "-c", code], cwd=tmp_path, env={**os.environ, "PYTHONPATH": str(ROOT)}
    ) as entry:
        until((tmp_path / "began").exists, 60, "the run")
        entry.terminate()
        assert entry.wait(30) == 0
    assert (tmp_path / "saved").exists()


MISSES_SIGTERM = """
import pathlib, signal, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
pathlib.Path("began").touch()
time.sleep(60)
"""


@pytest.mark.parametrize(("number", "code"), [(signal.SIGKILL, -signal.SIGKILL)])
def test_worker_does_not_outlive_its_entry_point(tmp_path, number, code):
    """A closed terminal, and ``kill -9`` of ``tuneline.operations.server.worker`` alone: Prefect's worker
    must not take more runs."""
    program = f"import os, pathlib; pathlib.Path('pid').write_text(str(os.getpid()))\n{MISSES_SIGTERM}"
    run = (
        "import signal, sys; from tuneline.operations.server import worker; worker.WORKER_ENDS_WITHIN = 1;"
        "signal.signal(signal.SIGHUP, signal.SIG_DFL);"  # the tests may run under nohup
        f"sys.exit(worker.run_worker([sys.executable, '-c', {program!r}]))"
    )
    with subprocess.Popen(
        [sys.executable, "-c", run], cwd=tmp_path, env={**os.environ, "PYTHONPATH": str(ROOT)}
    ) as entry:
        until((tmp_path / "began").exists, 60, "the worker")
        prefects = psutil.Process(int((tmp_path / "pid").read_text()))
        entry.send_signal(number)
        assert entry.wait(30) == code
        until(
            lambda: not prefects.is_running() or prefects.status() == psutil.STATUS_ZOMBIE,
            10,
            "Prefect's worker to end",
        )
