"""Log lines, throughput and trackers of a run."""

import json
import re
import subprocess

import numpy as np
import pytest

from stages.train import devices, progress
from stages.train.devices import check_trackers
from stages.train.progress import Throughput
from tests.dvc_files import init_dvc
from tests.stages.train import launcher, tiny_task
from tuneline.runtime.errors import ParamsError


def test_throughput_counts_rows_real_tokens_and_padding():
    throughput = Throughput()
    throughput.add(2, np.array([5, 3]), width=8)
    throughput.add(1, np.array([4]), width=4)
    throughput.add(0, np.array([], dtype=np.int64), width=0)  # a process with nothing to do
    assert (throughput.samples, throughput.tokens, throughput.positions) == (3, 12, 20)
    assert throughput.padding == pytest.approx(8 / 20)


def test_padding_is_zero_before_the_first_step():
    assert Throughput().padding == 0.0


def test_tracker_that_is_not_installed_is_refused(monkeypatch):
    """accelerate would only warn and train without curves."""
    monkeypatch.setattr(devices, "find_spec", lambda name: None if name == "tensorboard" else name)
    check_trackers(["dvclive"])
    with pytest.raises(ParamsError, match=r"run\.trackers: tensorboard"):
        check_trackers(["dvclive", "tensorboard"])


def test_log_lines_have_loss_rate_throughput_and_time_left(trained, monkeypatch, capsys):
    """Lines replace the progress bar where the output is not a terminal."""
    monkeypatch.setattr(progress, "SECONDS_BETWEEN_LINES", 0.0)
    trained(tiny_task.params())
    lines = [line for line in capsys.readouterr().out.splitlines() if line.startswith("train: step 7 of 16:")]
    assert len(lines) == 1
    assert re.search(
        r"loss \d\.\d+, lr [\d.e-]+, \d+ samples/s, \d+ tokens/s, \d+\.\d% padding, \d+ s left", lines[0]
    )


def test_git_repository_without_a_commit_has_no_live_curves_but_trains(project, trained, capsys):
    """DVCLive 3.49 asks git for the commit, and fails."""
    subprocess.run(["git", "init", "--quiet"], cwd=project, check=True)
    init_dvc(project)
    result = trained(tiny_task.params(trackers=["dvclive"]))
    assert result.state.is_finished()
    assert "WARNING: there will be no live curves in reports/live: " in capsys.readouterr().out
    result.state.accelerator.end_training()


def test_live_curves_equal_the_published_curves(tracked_run):
    lines = (tracked_run / "reports/live/plots/metrics/loss.tsv").read_text().splitlines()[1:]
    assert [float(line.split("\t")[1]) for line in lines] == pytest.approx(
        [row[1] for row in launcher.curve(tracked_run)], abs=1e-5
    )
    live = json.loads((tracked_run / "reports/live/metrics.json").read_text())
    assert live["step"] == 16
    assert "validation_accuracy" in live


def test_tensorboard_logs_every_step(tracked_run):
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    [events] = (tracked_run / "reports/live").rglob("events.out.tfevents.*")
    accumulator = EventAccumulator(str(events.parent)).Reload()
    assert [event.step for event in accumulator.Scalars("loss")] == list(range(1, 17))
