import math

import numpy as np
import pytest
import torch

from stages.train.loop import train_batch
from tests.stages.train import made
from tuneline.errors import DataError
from tuneline.files.schemas import LabelSchema


def losses(outcome):
    return [row.loss for row in outcome.state.progress.logged]


@pytest.fixture
def exact(trained):
    """Trains without dropout, whose masks depend on the batch."""
    return lambda **train: trained(made.params(made.WITHOUT_DROPOUT, **train))


@pytest.fixture
def whole(exact):
    return exact(micro_batch_size=8)


@pytest.mark.parametrize("micro_batch_size", [4, 2, 1])
def test_losses_do_not_depend_on_the_micro_batch(exact, whole, micro_batch_size):
    shared = exact(micro_batch_size=micro_batch_size)
    assert losses(shared) == pytest.approx(losses(whole), abs=1e-5)
    assert [row.gradient_norm for row in shared.state.progress.logged] == pytest.approx(
        [row.gradient_norm for row in whole.state.progress.logged], rel=1e-3
    )


def test_the_same_with_class_weights_and_label_smoothing(exact):
    options = {"class_weights": {"billing": 5.0}, "label_smoothing": 0.1}
    assert losses(exact(micro_batch_size=1, **options)) == pytest.approx(losses(exact(micro_batch_size=8, **options)), abs=1e-5)


def test_the_last_group_is_trained_though_it_is_smaller(whole):
    """60 rows in groups of 8: 7 whole ones and one of 4, twice."""
    assert whole.state.progress.step == 16
    assert whole.state.logger.throughput.samples == 120


def test_a_group_s_loss_is_the_mean_over_its_examples(project, accelerated):
    from stages.train.devices import create_accelerator
    from stages.train.inputs import read_inputs
    from stages.train.interruption import Interruption
    from stages.train.state import set_up

    params = made.params(made.WITHOUT_DROPOUT, micro_batch_size=1)
    state = set_up(params, read_inputs(params.train), create_accelerator(params.train), Interruption(), 1)
    rows = state.sampler.epoch(0)[0]
    with torch.no_grad():
        logits = state.model(**state.train_loader.inputs(rows)).logits
        expected = torch.nn.functional.cross_entropy(logits, state.train_loader.labels(rows)).item()
    assert train_batch(state, rows).loss == pytest.approx(expected, abs=1e-6)


def test_the_gradient_norm_is_logged_before_clipping(exact):
    free, clipped = exact(max_grad_norm=None), exact(max_grad_norm=1e-3)
    assert clipped.state.progress.logged[0].gradient_norm == pytest.approx(free.state.progress.logged[0].gradient_norm)
    assert losses(clipped)[-1] != losses(free)[-1]


def test_training_learns(project, exact):
    made.write_data(project, rows=240)
    outcome = exact(epochs=12, learning_rate=3e-3, micro_batch_size=8)
    assert outcome.state.progress.best.metric > 0.9
    assert losses(outcome)[-1] < 0.3


def test_a_loss_that_is_no_number_ends_the_run_and_names_step_and_rows(exact):
    with pytest.raises(DataError, match=r"Step \d+: loss .*Rows of its batch in data/tokenized/train.parquet: \d+(, \d+){3,7}\.") as error:
        exact(optimizer="sgd", learning_rate=1e30, max_grad_norm=None)
    assert "learning_rate" in error.value.hint


def test_labels_that_are_no_numbers_are_found_in_the_batch_that_holds_them(project, trained):
    made.write_data(project, labels=LabelSchema(None))
    path = project / "data/tokenized/train.parquet"
    import pyarrow as pa

    from tuneline.files.schemas import write_table

    table = made.table(60, 0, LabelSchema(None))
    values = table["labels"].to_numpy().copy()
    values[17] = math.nan
    write_table(table.set_column(table.column_names.index("labels"), table.schema.field("labels"), pa.array(values)), path)
    with pytest.raises(DataError, match=r"\b17\b"):
        trained(made.params(metric="mse"))


def test_a_regression_trains_and_is_judged_by_a_metric_for_which_less_is_better(project, trained):
    made.write_data(project, labels=LabelSchema(None))
    outcome = trained(made.params(metric="mse", epochs=6))
    rows = outcome.state.progress.evaluated
    assert outcome.state.progress.best.metric == min(row.metric for row in rows)
    assert outcome.model.config.problem_type == "regression"


def test_dropout_is_a_function_of_seed_and_step(trained):
    """Not of what was drawn before: a run that goes on draws the same."""
    first = trained(made.params())
    torch.manual_seed(np.random.randint(1 << 30))
    torch.rand(100)
    assert losses(trained(made.params())) == losses(first)


def test_a_run_is_the_same_twice(trained):
    first, second = trained(made.params()), trained(made.params())
    assert all(torch.equal(first.weights[name], second.weights[name]) for name in first.weights)
