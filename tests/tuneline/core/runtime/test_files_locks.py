"""Locks of files and folders: one holder at a time, until it ends or closes it."""

import subprocess
import sys
import threading
import time

import pytest

from tuneline.core.runtime.files import BusyError, locked

HOLDER = """
import sys, time
from pathlib import Path
from tuneline.core.runtime.files import locked
with locked(Path(sys.argv[1])):
    print("held", flush=True)
    time.sleep(60)
"""


@pytest.mark.parametrize("kind", ["file", "folder"])
def test_lock_is_refused_until_its_holder_is_killed(tmp_path, kind):
    path = tmp_path if kind == "folder" else tmp_path / "lock"
    with subprocess.Popen(
        [sys.executable, "-c", HOLDER, str(path)], stdout=subprocess.PIPE, text=True
    ) as holder:
        assert holder.stdout.readline() == "held\n"
        with pytest.raises(BusyError, match=path.name), locked(path, wait=0):
            pass
        holder.kill()
    with locked(path, wait=0):
        pass


def test_waiting_process_locks_the_new_file_where_the_holder_removed_the_old_one(tmp_path):
    file, ended = tmp_path / "lock", threading.Event()

    def hold_and_remove() -> None:
        with locked(file):
            ended.wait()
            file.unlink()

    holder = threading.Thread(target=hold_and_remove)
    holder.start()
    while not file.exists():
        time.sleep(0.01)
    threading.Timer(0.3, ended.set).start()
    with locked(file, wait=20):
        assert file.exists()
        with pytest.raises(BusyError), locked(file, wait=0):
            pass
    holder.join()


def test_link_is_not_followed(tmp_path):
    (tmp_path / "link").symlink_to(tmp_path, target_is_directory=True)
    with pytest.raises(OSError, match="link"), locked(tmp_path / "link"):
        pass
