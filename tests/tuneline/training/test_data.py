import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from transformers import BertConfig

from tests.tuneline.training import tiny_task
from tuneline.core.runtime.errors import DataError, ParamsError
from tuneline.core.stage.tables import write_table
from tuneline.model.tasks import task_with_names
from tuneline.training.data import (
    check_fit,
    check_metric,
    model_input_files,
    read_inputs,
    shard_batch,
    split_into_micro_batches,
)

SPLITS = ("train", "validation")


def test_data_files_are_those_that_decide_the_training(project):
    """The identity of a run is made of their contents: a changed test split must not start a new run."""
    assert [str(path) for path in model_input_files()] == [
        "data/tokenized/train.parquet",
        "data/tokenized/validation.parquet",
        "data/tokenized/tokenizer/tokenizer.json",
        "data/tokenized/tokenizer/tokenizer_config.json",
    ]


@pytest.mark.parametrize("split", SPLITS)
def test_split_without_rows_is_refused(project, split):
    write_table(tiny_task.table(0, seed=0), project / f"data/tokenized/{split}.parquet")
    with pytest.raises(DataError, match=rf"{split}\.parquet .*rows"):
        read_inputs(tiny_task.params().train)


def test_metric_that_does_not_fit_the_labels_is_refused():
    with pytest.raises(ParamsError, match=r"train\.metric: 'pearson' is not a metric of classification"):
        check_metric(tiny_task.params(metric="pearson").train, task_with_names(tiny_task.NAMES))


@pytest.mark.parametrize(
    ("config", "message"),
    [
        (
            {"max_position_embeddings": 8},
            r"it has 8 positions, but a row has \d+ tokens(.|\n)*tokenize.max_length to 8",
        ),
        ({"vocab_size": 20}, r"its highest token id is 19, but the data contain the id 31"),
    ],
)
def test_check_fit_refuses_rows_or_ids_that_the_model_cannot_take(project, config, message):
    inputs = read_inputs(tiny_task.params().train)
    with pytest.raises(ParamsError, match=message):
        check_fit(inputs, BertConfig(**{**tiny_task.MODEL, **config}))


@given(rows=st.integers(1, 50), micro=st.integers(1, 12), processes=st.integers(1, 5))
def test_micro_batches_cover_the_batch_and_are_equally_many_per_process(rows, micro, processes):
    batch = np.arange(rows)
    assert np.concatenate(split_into_micro_batches(batch, micro, processes)).tolist() == batch.tolist()
    shards = [shard_batch(batch, micro, processes, process) for process in range(processes)]
    assert len({len(shard) for shard in shards}) == 1
    sizes = [len(micro_batch) for shard in shards for micro_batch in shard]
    assert max(sizes) <= micro
    assert max(sizes) - min(sizes) <= 1
