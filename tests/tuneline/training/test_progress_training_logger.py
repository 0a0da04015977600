"""Log lines and throughput of a run."""

import re

from tests.tuneline.training import tiny_task
from tuneline.training import progress


def test_log_lines_have_loss_rate_and_throughput(trained, monkeypatch, capsys):
    monkeypatch.setattr(progress, "SECONDS_BETWEEN_LINES", 0.0)
    trained(tiny_task.params())
    lines = [line for line in capsys.readouterr().out.splitlines() if line.startswith("train: step 7 of 16:")]
    assert len(lines) == 1
    assert re.search(r"loss \d\.\d+, lr [\d.e-]+, \d+ samples/s, \d+ tokens/s", lines[0])


def test_samples_and_tokens_of_all_steps_are_counted(trained):
    state = trained(tiny_task.params(epochs=2)).state
    split = state.train_loader.split
    assert (state.logger.samples, state.logger.tokens) == (2 * len(split), 2 * split.lengths.sum())
