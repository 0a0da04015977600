import math
import shutil
from dataclasses import replace

import numpy as np
import pytest
import torch

from tests.shards import into_shards
from tests.tuneline.training import tiny_task
from tuneline.core.params.loading import parse_params
from tuneline.core.paths import CHECKPOINTS
from tuneline.core.runtime.errors import DataError, ParamsError
from tuneline.model.tasks import Regression
from tuneline.training import loop
from tuneline.training.data import read_inputs
from tuneline.training.devices import create_accelerator
from tuneline.training.interruption import Interruption
from tuneline.training.loop import divided_contrast
from tuneline.training.losses import contrastive_loss
from tuneline.training.state import set_up


def losses(outcome):
    return [row.loss for row in outcome.state.progress.logged]


@pytest.fixture
def exact(trained):
    """Return a function that trains without dropout, whose masks depend on the micro-batches."""
    return lambda **train: trained(tiny_task.params(tiny_task.WITHOUT_DROPOUT, **train))


@pytest.fixture
def whole(exact):
    return exact(micro_batch_size=8)


@pytest.mark.parametrize(
    "micro_batch_size", [2, *(pytest.param(size, marks=pytest.mark.slow) for size in (4, 1))]
)
def test_losses_do_not_depend_on_the_micro_batch(exact, whole, micro_batch_size):
    shared = exact(micro_batch_size=micro_batch_size)
    assert losses(shared) == pytest.approx(losses(whole), abs=1e-5)
    assert [row.gradient_norm for row in shared.state.progress.logged] == pytest.approx(
        [row.gradient_norm for row in whole.state.progress.logged], rel=1e-3
    )


def test_weighted_and_smoothed_losses_do_not_depend_on_the_micro_batch(exact):
    options = {"class_weights": {"billing": 5.0}, "label_smoothing": 0.1}
    assert losses(exact(micro_batch_size=1, **options)) == pytest.approx(
        losses(exact(micro_batch_size=8, **options)), abs=1e-5
    )


def test_contrastive_loss_needs_pooled_vectors(project, trained, capsys):
    tiny_task.write_checkpoint(project)
    settings = tiny_task.settings(tiny_task.FINE_TUNED, contrastive=0.5)
    settings["data"]["text_columns"] = ["body"]
    outcome = trained(parse_params(settings))
    assert outcome.state.loss.contrastive == 0
    assert "train: no contrastive loss" in capsys.readouterr().out


def test_pairs_of_a_divided_batch_are_compared_with_the_dropout_of_the_step(project, accelerated):
    tiny_task.write_checkpoint(project)
    settings = tiny_task.settings({**tiny_task.FINE_TUNED, "config": {"hidden_dropout_prob": 0.5}})
    settings["data"]["text_columns"] = ["body"]
    params = parse_params(settings)
    head = {"weight": torch.zeros(3, 16), "bias": torch.zeros(3)}
    inputs = replace(read_inputs(params.train), linear_head=head)
    state = set_up(params, inputs, create_accelerator(params), Interruption())

    parts = [np.arange(4), np.arange(4, 8)]
    contrast = divided_contrast(state, parts, rows=8)
    vectors = []
    for index, rows in enumerate(parts):
        loop._seed_dropout(state, index)
        vectors.append(state.model(**state.train_loader.inputs(rows)).hidden_states[0])
    whole = contrastive_loss(torch.cat(vectors), state.train_loader.labels(np.arange(8)))
    torch.testing.assert_close(contrast.loss, whole.detach())


def test_training_learns_the_synthetic_task(project, exact):
    tiny_task.write_data(project, rows=240)
    outcome = exact(epochs=12, learning_rate=3e-3, micro_batch_size=8)
    assert outcome.state.progress.best.metric > 0.9
    assert losses(outcome)[-1] < 0.3


def test_non_finite_loss_error_names_step_and_rows(exact):
    with pytest.raises(
        DataError,
        match=r"(\S+\.parquet, row \d+[;.]\s){4,8}",
    ) as error:
        exact(learning_rate=1e30)
    assert "learning_rate" in error.value.hint


def test_nan_label_error_names_its_shard_and_row(project, trained):
    tiny_task.write_data(project, labels=Regression())
    path = project / "data/tokenized/train.parquet"
    import pyarrow as pa

    from tuneline.core.stage.tables import write_table

    table = tiny_task.table(60, 0, Regression())
    values = table["labels"].to_numpy().copy()
    values[17] = math.nan
    write_table(
        table.set_column(table.column_names.index("labels"), table.schema.field("labels"), pa.array(values)),
        path,
    )
    into_shards(path.parent, 10)
    with pytest.raises(DataError, match=r"00001-of-00006\S*, row 7"):
        trained(tiny_task.params(metric="mse"))


def test_regression_selects_the_best_by_a_lower_is_better_metric(project, trained):
    tiny_task.write_data(project, labels=Regression())
    outcome = trained(tiny_task.params(metric="mse", epochs=6))
    rows = outcome.state.progress.evaluated
    assert outcome.state.progress.best.metric == min(row.metric for row in rows)
    assert outcome.model.config.problem_type == "regression"


def test_dropout_depends_on_seed_and_step_only(trained):
    """Not on earlier random numbers: a resumed run draws the same masks."""
    first = trained(tiny_task.params())
    torch.manual_seed(np.random.randint(1 << 30))
    torch.rand(100)
    shutil.rmtree(CHECKPOINTS)
    assert losses(trained(tiny_task.params())) == losses(first)


def test_training_twice_gives_identical_weights(trained):
    first = trained(tiny_task.params())
    shutil.rmtree(CHECKPOINTS)
    second = trained(tiny_task.params())
    assert all(torch.equal(first.weights[name], second.weights[name]) for name in first.weights)


@pytest.mark.parametrize("training", [True, False])
def test_out_of_memory_has_a_hint_that_helps(trained, memory_for, training):
    """A smaller micro-batch helps an evaluation, too, and the run resumes with it."""
    settings = {"checkpoint_every_steps": 4, "evaluate_every_steps": 6}
    memory_for(4 if training else 16, training)
    with pytest.raises(ParamsError, match=r"train\.micro_batch_size 8") as error:
        trained(tiny_task.params(micro_batch_size=8, **settings))
    assert "Halve it" in error.value.hint
    assert "gradient_checkpointing" in error.value.hint

    outcome = trained(tiny_task.params(micro_batch_size=4, **settings), resume=True)
    assert outcome.state.progress.step == 16
