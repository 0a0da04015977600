import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from tests.tuneline.training import tiny_task
from tuneline.training.data import read_inputs
from tuneline.training.devices import create_accelerator
from tuneline.training.interruption import Interruption
from tuneline.training.loop import predict_validation, restore_file_order, shard_split
from tuneline.training.state import set_up


@given(
    lengths=st.lists(st.integers(1, 30), min_size=1, max_size=80),
    batch_size=st.integers(1, 9),
    processes=st.integers(1, 4),
)
def test_shard_split_gives_every_row_to_one_process_and_equally_many_batches(lengths, batch_size, processes):
    shards = shard_split(np.array(lengths), batch_size, processes)
    rows = np.concatenate([batch for shard in shards for batch in shard])
    assert sorted(rows.tolist()) == list(range(len(lengths)))
    assert len({len(shard) for shard in shards}) == 1
    assert all(len(batch) <= batch_size for shard in shards for batch in shard)


@pytest.mark.parametrize(
    "rows",
    [
        [0, 1, 1],
        [0, 2],
    ],
)
def test_prediction_counted_twice_or_missing_is_an_error(rows):
    with pytest.raises(AssertionError, match="the split has 3"):
        restore_file_order(np.array(rows), np.zeros((len(rows), 2), dtype=np.float32), 3)


@pytest.fixture
def prediction(project, accelerated, monkeypatch):
    """Return a function that predicts the validation split with a new model and a given batch size."""
    params = tiny_task.params()
    inputs = read_inputs(params.train)
    interruption = Interruption()
    state = set_up(params, inputs, create_accelerator(params), interruption)

    def run(batch_size):
        monkeypatch.setattr("tuneline.training.state.EVALUATION_BATCH_SIZE", batch_size)
        return predict_validation(state)

    run.interruption, run.model, run.inputs = interruption, state.model, inputs
    return run


def test_logits_of_a_batch_equal_those_of_each_row_alone(prediction):
    logits = prediction(5)
    split = prediction.inputs.validation
    prediction.model.eval()
    for row in range(len(split)):
        batch = {name: torch.from_numpy(values) for name, values in split.pad(np.array([row]), 0).items()}
        with torch.no_grad():
            assert prediction.model(**batch).logits[0].tolist() == pytest.approx(
                logits[row].tolist(), abs=1e-5
            )


def test_evaluation_has_no_dropout_and_leaves_the_model_training(prediction):
    assert np.array_equal(prediction(64), prediction(64))
    assert prediction.model.training
