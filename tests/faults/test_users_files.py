"""Files of users, as input and output of ``tuneline predict``: bombs, two writers of one file, and kills
while one is written."""

import subprocess
import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.conftest import ROOT
from tests.faults.kills import kills
from tuneline.predict.columns import OutputColumns
from tuneline.predict.writing import PredictionOutput, open_writer
from tuneline.readers.inputs import Row
from tuneline.tasks import Classification

ROWS = 2000


def write(path, text, rows=ROWS):
    """Write rows to an output, window by window."""
    with open_writer(
        PredictionOutput(Path(path), "csv"), OutputColumns(Classification(("a", "b")), ("text",))
    ) as writer:
        for first in range(0, rows, 50):
            window = [Row(number, ("",), {"text": text}) for number in range(first, first + 50)]
            writer.write(window, np.tile([0.25, 0.75], (50, 1)))


@pytest.mark.promise("output-behind-link")
def test_kill_leaves_the_link_and_a_whole_file_behind_it(tmp_path):
    target, link = tmp_path / "real.csv", tmp_path / "link.csv"
    write(target, "old", rows=50)
    old = target.read_bytes()
    link.symlink_to("real.csv")
    for step in kills(lambda: write(link, "new", rows=100)):
        assert target.read_bytes() == old or len(target.read_text().splitlines()) == 101, step
        assert link.is_symlink()
    assert len(link.read_text().splitlines()) == 101
    assert {path.name for path in tmp_path.iterdir()} == {"real.csv", "link.csv"}


READ = """
import sys
from pathlib import Path
from tuneline.readers.inputs import InputColumns, open_rows
from tuneline.readers.tables import Input
from tuneline.runtime.errors import DataError
from tuneline.readers.parquet import PARQUET
def peak():  # of this process alone: resource.getrusage may return that of the one that started it
    return int(Path("/proc/self/status").read_text().split("VmHWM:")[1].split()[0]) >> 10
before, count = peak(), 0
try:
    source = Input(Path(sys.argv[1]), PARQUET.usual)
    with open_rows(source, InputColumns(("text",), ())) as rows:
        for row in rows.rows:
            count += 1
except DataError as error:
    print(error.problem, file=sys.stderr)
print(count, peak() - before)
"""


def read(path):
    """Read a file in a process of its own, and return the number of its rows, the memory that this took in
    MB, and the error."""
    done = subprocess.run(
        [sys.executable, "-c", READ, path], cwd=ROOT, capture_output=True, text=True, check=True
    )
    rows, memory = map(int, done.stdout.split())
    return rows, memory, done.stderr


@pytest.mark.slow
@pytest.mark.promise("unpacking-bomb")
def test_parquet_file_of_500_bytes_with_gigabytes_is_refused_at_the_limit_in_the_memory_of_some_rows(
    tmp_path,
):
    repeated = pa.DictionaryArray.from_arrays(pa.array(np.zeros(1900, np.int32)), ["a" * 1_000_000])
    pq.write_table(
        pa.table({"text": repeated}), tmp_path / "in.parquet", compression="zstd", store_schema=False
    )
    assert (tmp_path / "in.parquet").stat().st_size < 1000
    rows, memory, error = read(tmp_path / "in.parquet")
    assert "row group 1: its rows take more than 1,024 MB" in error
    assert rows * 1_000_000 <= 1024 << 20
    assert memory < 200
