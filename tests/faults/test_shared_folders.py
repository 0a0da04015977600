"""Folders that every user of the machine may write to: DVC's site cache, which it unpickles, and the code
that torch.compile keeps."""

import pickle
import sqlite3
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from tests.conftest import ROOT
from tests.faults.disks import NAMESPACE
from tuneline.core.paths import SITE_CACHE
from tuneline.core.repository.programs import Programs


class Attack:
    """Creates a file when it is unpickled."""

    def __init__(self, marker: Path) -> None:
        self.marker = marker

    def __reduce__(self):
        return open, (str(self.marker), "w")


def plant(site: Path, marker: Path) -> None:
    """Do what another user of the machine can do where DVC's site cache is open to everyone."""
    (links,) = site.glob("repo/*/links/cache.db")
    with sqlite3.connect(links) as database:
        database.execute("INSERT INTO Cache(key, raw) VALUES (?, 0)", (pickle.dumps(Attack(marker)),))


@pytest.fixture
def shared(tmp_path) -> Path:
    """What stands for the machine's shared folder of temporary files."""
    folder = tmp_path / "shared"
    folder.mkdir()
    folder.chmod(0o1777)
    return folder


@pytest.fixture
def repository(tmp_path, shared, monkeypatch) -> Path:
    """A DVC repository in which DVC has run with its defaults, and another user then planted a pickle in the
    shared folder."""
    folder = tmp_path / "repository"
    folder.mkdir()
    (folder / "data.txt").write_text("a\n")
    monkeypatch.delenv("DVC_SITE_CACHE_DIR")
    subprocess.run(["git", "init", "--quiet"], cwd=folder, check=True)
    run_dvc("init", "--quiet", cwd=folder, shared=shared)
    run_dvc("add", "--quiet", "data.txt", cwd=folder, shared=shared)
    plant(shared / "dvc", tmp_path / "attacked")
    return folder


def run_dvc(*arguments: str, cwd: Path, shared: Path) -> None:
    """Run DVC as on a machine whose ``/var/tmp`` is ``shared``."""
    if subprocess.run(
        [*NAMESPACE, "mount --bind . /var/tmp"], cwd=shared, capture_output=True, check=False
    ).returncode:
        pytest.skip("this system does not allow a user to mount a folder")
    script = 'mount --bind "$0" /var/tmp && exec "$@"'
    subprocess.run(
        [*NAMESPACE, script, shared, sys.executable, "-m", "dvc", *arguments],
        cwd=cwd,
        capture_output=True,
        check=False,
    )


def set_up(folder: Path) -> None:
    """Run ``make setup`` where the packages are installed already."""
    (folder / ".venv/bin").mkdir(parents=True)
    (folder / ".venv/bin/python").write_text(f'#!/bin/sh\nexec "{sys.executable}" "$@"\n')
    (folder / ".venv/bin/python").chmod(0o755)
    for name in ("Makefile", "requirements.txt", "pyproject.toml"):
        (folder / name).write_bytes((ROOT / name).read_bytes())
    (folder / ".venv/.installed").touch()
    subprocess.run(["make", "--silent", "setup"], cwd=folder, check=True)


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_pickle_of_another_user_is_run_with_the_defaults_of_dvc_and_not_after_make_setup(
    tmp_path, shared, repository
):
    run_dvc("checkout", cwd=repository, shared=shared)
    assert (tmp_path / "attacked").exists()
    (tmp_path / "attacked").unlink()
    set_up(repository)
    run_dvc("checkout", cwd=repository, shared=shared)
    assert not (tmp_path / "attacked").exists()
    assert list((repository / SITE_CACHE).glob("repo/*/links"))
    assert mode(repository / SITE_CACHE) == 0o700


def test_pickle_of_another_user_is_not_run_by_a_flow(tmp_path, shared, repository, monkeypatch):
    monkeypatch.setenv("DVC_SITE_CACHE_DIR", str(shared / "dvc"))
    programs = Programs(repository, "run")
    programs.dvc("checkout", what="Restoring", on_line=lambda _line: None)
    assert not (tmp_path / "attacked").exists()
    assert mode(repository / SITE_CACHE) == 0o700
