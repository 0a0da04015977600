"""Locks of folders: one holder at a time, until it ends or closes it."""

import os
import subprocess
import sys

import pytest

from tuneline.errors import StageError
from tuneline.files.locks import lock_folder

HOLDER = """
import sys, time
from pathlib import Path
from tuneline.files.locks import lock_folder
lock_folder(Path(sys.argv[1]), None)
print("held", flush=True)
time.sleep(60)
"""


def test_folder_is_refused_until_its_holder_is_killed(tmp_path):
    with subprocess.Popen([sys.executable, "-c", HOLDER, str(tmp_path)], stdout=subprocess.PIPE, text=True) as holder:
        assert holder.stdout.readline() == "held\n"
        with pytest.raises(StageError, match="somebody writes here"):
            lock_folder(tmp_path, StageError("somebody writes here"))
        holder.kill()
    os.close(lock_folder(tmp_path, StageError("somebody writes here")))


def test_link_is_not_followed(tmp_path):
    (tmp_path / "link").symlink_to(tmp_path, target_is_directory=True)
    with pytest.raises(OSError, match="link"):
        lock_folder(tmp_path / "link", StageError("busy"))
