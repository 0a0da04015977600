"""Log lines, throughput and trackers of a run."""

import json
import re

import pytest

from stages.train import progress
from tests.stages.train import launcher, tiny_task


def test_log_lines_have_loss_rate_throughput_and_time_left(trained, monkeypatch, capsys):
    """Lines replace the progress bar where the output is not a terminal."""
    monkeypatch.setattr(progress, "SECONDS_BETWEEN_LINES", 0.0)
    trained(tiny_task.params())
    lines = [line for line in capsys.readouterr().out.splitlines() if line.startswith("train: step 7 of 16:")]
    assert len(lines) == 1
    assert re.search(r"loss \d\.\d+, lr [\d.e-]+, \d+ samples/s, \d+ tokens/s, \d+\.\d% padding", lines[0])


def test_live_curves_equal_the_published_curves(tracked_run):
    lines = (tracked_run / "reports/live/plots/metrics/loss.tsv").read_text().splitlines()[1:]
    assert [float(line.split("\t")[1]) for line in lines] == pytest.approx(
        [row[1] for row in launcher.curve(tracked_run)], abs=1e-5
    )
    live = json.loads((tracked_run / "reports/live/metrics.json").read_text())
    assert live["step"] == 16
    assert "validation_accuracy" in live
