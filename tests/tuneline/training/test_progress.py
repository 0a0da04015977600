import math

from hypothesis import given
from hypothesis import strategies as st

from tests.tuneline.training import tiny_task
from tuneline.training.progress import Evaluation, TrainingProgress, TrainingStep

NUMBERS = st.floats(-1e300, 1e300)  # five of them have a mean


@given(losses=st.lists(NUMBERS, min_size=1, max_size=5), metric=NUMBERS)
def test_progress_json_round_trip_is_exact(tmp_path_factory, losses, metric):
    progress = TrainingProgress(step=7)
    for loss in losses:
        progress.record_step(TrainingStep(7, loss, 0.1 + 0.2, 1e-300), log_now=loss > 0)
    progress.record_evaluation(Evaluation(7, 1 / 3, metric), greater_is_better=True)
    path = tmp_path_factory.getbasetemp() / "progress.json"
    progress.write(path)
    assert TrainingProgress.read(path) == progress


def record_evaluations(metrics, greater_is_better=True, min_gain=0.0, losses=None):
    progress, best = TrainingProgress(), []
    for step, metric in enumerate(metrics, start=1):
        progress.step = step
        loss = 1.0 if losses is None else losses[step - 1]
        best.append(progress.record_evaluation(Evaluation(step, loss, metric), greater_is_better, min_gain))
    return progress, best


def test_lower_loss_decides_between_equal_metrics():
    progress, best = record_evaluations([0.5, 0.7, 0.7, 0.7, 0.7], losses=[0.9, 0.8, 0.6, 0.7, math.nan])
    assert best == [True, True, True, False, False]
    assert progress.best.step == 3
    assert progress.evaluations_without_improvement == 3


def test_gain_below_min_gain_is_best_but_counts_towards_patience():
    progress, best = record_evaluations([0.5, 0.505, 0.509], min_gain=0.01)
    assert best == [True, True, True]
    assert progress.evaluations_without_improvement == 2


def test_early_stopping_ends_the_run_after_patience(trained):
    outcome = trained(
        tiny_task.params(
            learning_rate=1e-9, epochs=9, metric="accuracy", early_stopping={"patience": 2, "min_gain": 0.0}
        )
    )
    assert outcome.state.progress.stopped_early
    assert [row.step for row in outcome.state.progress.evaluated] == [8, 16, 24]
    assert outcome.state.progress.best_step == 8
