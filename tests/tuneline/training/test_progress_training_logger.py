"""Log lines and throughput of a run."""

import re

from tests.tuneline.training import tiny_task
from tuneline.training import progress


def test_log_lines_have_loss_rate_throughput_and_time_left(trained, monkeypatch, capsys):
    monkeypatch.setattr(progress, "SECONDS_BETWEEN_LINES", 0.0)
    trained(tiny_task.params())
    lines = [line for line in capsys.readouterr().out.splitlines() if line.startswith("train: step 7 of 16:")]
    assert len(lines) == 1
    assert re.search(r"loss \d\.\d+, lr [\d.e-]+, \d+ samples/s, \d+ tokens/s, \d+\.\d% padding", lines[0])
