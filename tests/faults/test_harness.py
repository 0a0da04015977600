"""Each fault of the harness does happen."""

import errno
import json
import os
import subprocess
import sys
import time

from tests.faults.clocks import date_file, moved_clock
from tests.faults.concurrency import at_once
from tests.faults.disks import on_small_disk
from tests.faults.kills import killed, kills
from tests.faults.networks import recording_lookups, without_network
from tests.faults.truncation import damages


def test_function_is_killed_before_each_change(tmp_path):
    first, second = tmp_path / "first", tmp_path / "second"

    def writes():
        first.write_text("1")
        first.rename(second)
        first.exists()  # changes nothing: not a step

    assert killed(writes, 1)
    assert not list(tmp_path.iterdir())
    left = [sorted(path.name for path in tmp_path.iterdir()) for _ in kills(writes)]
    assert left == [[], ["first"]]
    assert second.exists()


def test_started_program_is_a_step(tmp_path):
    def starts():
        subprocess.run(["touch", tmp_path / "touched"], check=True)
        subprocess.run(["true"], check=True)

    assert killed(starts, 1)
    assert not (tmp_path / "touched").exists()
    assert killed(starts, 2, lambda event, _: event == "subprocess.Popen")
    assert (tmp_path / "touched").exists()


def test_small_disk_is_full_and_keeps_what_was_there(tmp_path):
    (tmp_path / "before").write_text("was there")
    fill = (
        "import os; file = os.open('large', os.O_CREAT | os.O_WRONLY); os.write(file, bytes(200_000));"
        " os.write(file, b'+')"
    )
    command = on_small_disk(tmp_path, "64k", sys.executable, "-c", fill)
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert os.strerror(errno.ENOSPC) in done.stderr
    assert [path.name for path in tmp_path.iterdir()] == ["before"]
    shown = subprocess.run(
        on_small_disk(tmp_path, "64k", "cat", "before"),
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert shown.stdout == "was there"


def test_network_is_away():
    connect = "import socket; socket.create_connection(('127.0.0.1', 9), timeout=5)"
    done = subprocess.run(
        without_network(sys.executable, "-c", connect), capture_output=True, text=True, check=False
    )
    assert os.strerror(errno.ENETUNREACH) in done.stderr


def test_lookup_of_a_name_is_recorded(tmp_path):
    lookup = (
        "import socket, sys\ntry: socket.getaddrinfo('tuneline.example.org', 80)\nexcept socket.gaierror:"
        " sys.exit(7)"
    )
    command = recording_lookups(tmp_path / "names.json", sys.executable, "-c", lookup)
    assert subprocess.run(command, check=False).returncode == 7
    assert json.loads((tmp_path / "names.json").read_text()) == ["tuneline.example.org"]


def test_clock_of_git_and_files_is_moved(tmp_path):
    path = tmp_path / "file"
    path.touch()
    date_file(path, 3600)
    assert path.stat().st_mtime > time.time() + 3500
    person = {
        "GIT_COMMITTER_NAME": "A",
        "GIT_COMMITTER_EMAIL": "a@localhost",
    }  # git of a machine without settings knows none
    env = {**os.environ, **person, **moved_clock(-3600)}
    moment = subprocess.run(
        ["git", "var", "GIT_COMMITTER_IDENT"], env=env, capture_output=True, text=True, check=False
    ).stdout.split()[-2]
    assert int(moment) < time.time() - 3500


def test_file_is_damaged_and_restored(tmp_path):
    path = tmp_path / "state.json"
    path.write_text('{"a": 1}')
    assert {name: path.read_bytes() for name in damages(path)}.keys() == {
        "empty",
        "half",
        "zeros",
        "another text",
    }
    assert path.read_text() == '{"a": 1}'


def test_commands_run_at_once(tmp_path):
    waits = ["sh", "-c", 'touch "$0"; until [ -e "$1" ]; do sleep 0.01; done']
    first, second = at_once([*waits, "a", "b"], [*waits, "b", "a"], cwd=tmp_path, timeout=30)
    assert (first.returncode, second.returncode) == (0, 0)
