"""Outputs of ``tuneline predict`` that are killed while they are written."""

from pathlib import Path

import numpy as np

from tests.faults.kills import kills
from tuneline.model.tasks import Classification
from tuneline.serve.columns import OutputColumns, Row
from tuneline.serve.writing import PredictionOutput, open_writer

ROWS = 2000


def write(path, text, rows=ROWS):
    """Write rows to an output, window by window."""
    with open_writer(
        PredictionOutput(Path(path), "csv"), OutputColumns(Classification(("a", "b")), ("text",))
    ) as writer:
        for first in range(0, rows, 50):
            window = [Row(number, ("",), (text,)) for number in range(first, first + 50)]
            writer.write(window, np.tile([0.25, 0.75], (50, 1)))


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
