"""What a person sees of a run."""

import json
import re

import numpy as np
import pytest

from stages.train import training_logger
from stages.train.training_logger import Throughput, check_trackers
from tests.stages.train import made, runs
from tests.stages.train.conftest import fill
from tuneline.errors import ParamsError


def test_throughput_counts_rows_real_tokens_and_padding():
    seen = Throughput()
    seen.add([np.array([5, 3]), np.array([4])])
    seen.add([np.array([], dtype=np.int64)])  # a process with nothing to do
    assert (seen.samples, seen.tokens, seen.positions) == (3, 12, 14)
    assert seen.padding == pytest.approx(2 / 14)


def test_before_the_first_step_nothing_is_padding():
    assert Throughput().padding == 0.0


def test_tracker_that_is_not_installed_is_refused(monkeypatch):
    """accelerate goes on without it, and nobody would know why there are no curves."""
    monkeypatch.setattr(training_logger, "find_spec", lambda name: None if name == "tensorboard" else name)
    check_trackers(["dvclive"])
    with pytest.raises(ParamsError, match=r"run\.trackers: tensorboard is not installed"):
        check_trackers(["dvclive", "tensorboard"])


def test_log_lines_have_loss_rate_throughput_and_time_left(trained, monkeypatch, capsys):
    """Without a terminal there is no bar."""
    monkeypatch.setattr(training_logger, "SECONDS_BETWEEN_LINES", 0.0)
    trained(made.params())
    lines = [line for line in capsys.readouterr().out.splitlines() if line.startswith("train: step 7 of 16:")]
    assert len(lines) == 1
    assert re.search(r"loss \d\.\d+, lr [\d.e-]+, \d+ samples/s, \d+ tokens/s, \d+\.\d% padding, \d+ s left", lines[0])


@pytest.fixture(scope="module")
def watched(tmp_path_factory, data):
    """A run with both trackers."""
    project = fill(tmp_path_factory.mktemp("watched"), data)
    made.write_params(project, trackers=["dvclive", "tensorboard"])
    assert runs.run(project) == [0], runs.output(project)
    return project


def test_live_curves_are_those_of_the_run(watched):
    lines = (watched / "reports/live/plots/metrics/loss.tsv").read_text().splitlines()[1:]
    assert [float(line.split("\t")[1]) for line in lines] == pytest.approx([row[1] for row in runs.curve(watched)], abs=1e-5)
    live = json.loads((watched / "reports/live/metrics.json").read_text())
    assert live["step"] == 16
    assert "validation_accuracy" in live


def test_tensorboard_has_the_live_curves(watched):
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    [events] = (watched / "reports/live").rglob("events.out.tfevents.*")
    found = EventAccumulator(str(events.parent)).Reload()
    assert [event.step for event in found.Scalars("loss")] == list(range(1, 17))


def test_timing_has_speed_padding_and_memory(watched):
    timing = json.loads((watched / "reports/timing/train.json").read_text())
    assert timing.keys() >= {"training_seconds", "samples_per_second", "tokens_per_second", "padding_share", "peak_memory_mb", "processes"}
    assert timing["samples_per_second"] > 0
    assert 0 <= timing["padding_share"] < 0.2


def test_metrics_have_steps_best_step_losses_and_metric(watched):
    metrics = runs.metrics(watched)
    curve = runs.curve(watched)
    assert metrics["steps"] == len(curve) == 16
    assert metrics["best_step"] in (8, 16)
    assert metrics["final_training_loss"] == pytest.approx(curve[-1][1], abs=1e-5)
    validation = runs.curve(watched, "validation")
    assert metrics["final_loss"] == pytest.approx(validation[-1][1], abs=1e-5)
    assert metrics["best_accuracy"] == max(row[2] for row in validation)
