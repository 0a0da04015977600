import os
import subprocess
import sys
import threading

import pytest

from tests.conftest import ROOT
from tuneline.predict.writing import open_target


def write(path, content=b"new\n"):
    with open_target(path) as file:
        file.write(content)


@pytest.mark.promise("output-behind-link")
def test_pipe_gets_what_is_written_and_stays_a_pipe(tmp_path):
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    read = []
    reader = threading.Thread(target=lambda: read.append(pipe.read_bytes()))
    reader.start()
    write(pipe)
    reader.join()
    assert read == [b"new\n"]
    assert pipe.is_fifo()
    assert list(tmp_path.iterdir()) == [pipe]


@pytest.mark.parametrize("exists", [True, False])
@pytest.mark.promise("output-behind-link")
def test_file_behind_links_is_replaced_and_the_links_stay(tmp_path, exists):
    (tmp_path / "real").mkdir()
    target = tmp_path / "real/out.csv"
    if exists:
        target.write_text("old\n")
    (tmp_path / "first").symlink_to("second")
    (tmp_path / "second").symlink_to("real/out.csv")
    write(tmp_path / "first")
    assert target.read_text() == "new\n"
    assert not target.is_symlink()
    assert ((tmp_path / "first").readlink().name, (tmp_path / "second").readlink()) == (
        "second",
        target.relative_to(tmp_path),
    )
    assert [path.name for path in (tmp_path / "real").iterdir()] == ["out.csv"]


def test_open_file_is_appended_to_and_not_replaced(tmp_path):
    log = tmp_path / "log"
    log.write_text("before\n")
    before = log.stat().st_ino
    code = (
        "from pathlib import Path; from tests.tuneline.predict.test_writing_targets import write;"
        " write(Path('/dev/stdout'))"
    )
    with log.open("ab") as stdout:
        subprocess.run([sys.executable, "-c", code], cwd=ROOT, stdout=stdout, check=True)
    assert (log.read_text(), log.stat().st_ino) == ("before\nnew\n", before)
