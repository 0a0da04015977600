import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from transformers import BertConfig

from stages.train.data import (
    LengthBucketedSampler,
    check_fit,
    check_label_params,
    data_files,
    read_inputs,
    shard_batch,
    split_into_micro_batches,
)
from tests.stages.train import tiny_task
from tuneline.errors import DataError, ParamsError, StageError
from tuneline.files.schemas import UNLABELLED, LabelSchema, write_table

SPLITS = ("train", "validation")

LENGTHS = np.random.default_rng(0).integers(3, 60, size=4000)


@pytest.mark.parametrize(("names", "outputs"), [(tiny_task.NAMES, 3), (None, 1)], ids=["classification", "regression"])
def test_inputs_have_splits_labels_and_the_id_that_pads(project, names, outputs):
    tiny_task.write_data(project, labels=LabelSchema(names))
    inputs = read_inputs(tiny_task.params(metric="loss").train)
    assert (len(inputs.train), len(inputs.validation)) == (60, 21)
    assert (inputs.labels.names, inputs.labels.outputs) == (names, outputs)
    assert (inputs.pad_token_id, len(inputs.tokenizer)) == (0, len(tiny_task.WORDS))


def test_data_files_are_those_that_decide_the_training(project):
    """The identity of a run is made of their contents: a changed test split must not start a new run."""
    assert [str(path) for path in data_files()] == [
        "data/tokenized/train.parquet",
        "data/tokenized/validation.parquet",
        "data/tokenized/tokenizer/tokenizer.json",
        "data/tokenized/tokenizer/tokenizer_config.json",
    ]


@pytest.mark.parametrize("split", SPLITS)
def test_split_without_rows_is_refused(project, split):
    write_table(tiny_task.table(0, seed=0), project / f"data/tokenized/{split}.parquet")
    with pytest.raises(DataError, match=rf"data/tokenized/{split}\.parquet has no rows"):
        read_inputs(tiny_task.params().train)


@pytest.mark.parametrize("split", SPLITS)
def test_unlabelled_row_is_refused_with_its_number(project, split):
    table = tiny_task.table(9, seed=0)
    labels = table["labels"].to_pylist()
    labels[4] = labels[7] = UNLABELLED
    table = table.set_column(table.column_names.index("labels"), table.schema.field("labels"), [labels])
    write_table(table, project / f"data/tokenized/{split}.parquet")
    with pytest.raises(DataError, match=rf"data/tokenized/{split}\.parquet, row 4: no label") as error:
        read_inputs(tiny_task.params().train)
    assert f"data.splits.{split}" in error.value.hint


@pytest.mark.parametrize("path", ["train.parquet", "validation.parquet", "tokenizer"])
def test_missing_input_names_the_stage_that_writes_it(project, path):
    (project / "data/tokenized" / path).rename(project / "elsewhere")
    with pytest.raises(StageError, match="dvc repro tokenize"):
        read_inputs(tiny_task.params().train)


@pytest.mark.parametrize(
    ("names", "given", "message"),
    [
        (tiny_task.NAMES, {"class_weights": {"legal": 2.0}}, r"train.class_weights: 'legal' is not a class"),
        (
            None,
            {"class_weights": "balanced", "metric": "mse"},
            "train.class_weights: the labels are numbers, and regression has no classes",
        ),
        (None, {"label_smoothing": 0.1, "metric": "mse"}, "train.label_smoothing: the labels are numbers, and regression has no classes"),
        (None, {}, "train.metric: 'accuracy' is not a metric of regression"),
        (tiny_task.NAMES, {"metric": "pearson"}, "train.metric: 'pearson' is not a metric of classification"),
    ],
)
def test_check_label_params_refuses_params_that_do_not_fit_the_labels(names, given, message):
    with pytest.raises(ParamsError, match=message):
        check_label_params(tiny_task.params(**given).train, LabelSchema(names))


@pytest.mark.parametrize(
    ("config", "message"),
    [
        ({"max_position_embeddings": 8}, r"it has 8 positions, but a row has \d+ tokens(.|\n)*tokenize.max_length to 8"),
        ({"vocab_size": 20}, r"its highest token id is 19, but the data contain the id 31"),
    ],
)
def test_check_fit_refuses_rows_or_ids_that_the_model_cannot_take(project, config, message):
    inputs = read_inputs(tiny_task.params().train)
    with pytest.raises(ParamsError, match=message):
        check_fit(inputs, BertConfig(**{**tiny_task.MODEL, **config}))


@settings(deadline=None)  # a busy machine is no failure
@given(
    lengths=st.lists(st.integers(1, 40), min_size=1, max_size=120),
    batch_size=st.integers(1, 20),
    window=st.integers(1, 9),
    epoch=st.integers(0, 3),
)
def test_sampler_puts_every_row_in_exactly_one_batch(lengths, batch_size, window, epoch):
    batches = LengthBucketedSampler(np.array(lengths), batch_size, window, seed=1).epoch(epoch)
    assert sorted(np.concatenate(batches).tolist()) == list(range(len(lengths)))
    assert [len(batch) for batch in batches[:-1]] == [batch_size] * (len(batches) - 1)
    assert len(batches) == LengthBucketedSampler(np.array(lengths), batch_size, window, seed=1).batches_per_epoch


def test_sampler_order_depends_on_seed_and_epoch_only():
    def order(seed, epoch):
        return np.concatenate(LengthBucketedSampler(LENGTHS, 16, 10, seed).epoch(epoch)).tolist()

    assert order(1, 0) == order(1, 0)
    assert order(1, 0) != order(1, 1)
    assert order(1, 0) != order(2, 0)


def padding(batches):
    positions = sum(len(batch) * LENGTHS[batch].max() for batch in batches)
    return 1 - LENGTHS.sum() / positions


def test_sampler_batches_rows_of_similar_length():
    assert padding(LengthBucketedSampler(LENGTHS, 16, 1, seed=0).epoch(1)) > 0.35
    assert padding(LengthBucketedSampler(LENGTHS, 16, 50, seed=0).epoch(1)) < 0.03


def test_sampler_redraws_batches_every_epoch():
    """Rows of equal length are shuffled before they are sorted, so that epochs differ."""
    sampler = LengthBucketedSampler(LENGTHS, 16, 50, seed=0)
    first, second = ({tuple(sorted(batch)) for batch in sampler.epoch(epoch)} for epoch in (1, 2))
    assert len(first & second) <= 3


def test_sampler_sorts_each_window_from_long_to_short():
    means = [LENGTHS[batch].mean() for batch in LengthBucketedSampler(LENGTHS, 16, 50, seed=0).epoch(1)]
    assert len(means) == 250
    for start in range(0, 250, 50):
        assert means[start : start + 50] == sorted(means[start : start + 50], reverse=True)
        assert means[start] > means[start - 1]


@pytest.mark.parametrize("rows", [16 * 9, 16 * 100])
def test_sampler_splits_small_data_into_several_windows(rows):
    means = np.array([LENGTHS[batch].mean() for batch in LengthBucketedSampler(LENGTHS[:rows], 16, 50, seed=0).epoch(1)])
    assert (np.diff(means) > 0).sum() >= 3


def test_sampler_puts_the_longest_row_first_to_detect_out_of_memory_early():
    assert LENGTHS[LengthBucketedSampler(LENGTHS, 16, 50, seed=0).epoch(0)[0]].max() == LENGTHS.max()


def test_sampler_draws_the_smaller_last_batch_at_random():
    """A row of a smaller batch has more weight; if they were always the longest rows, the model would favour them."""
    sampler = LengthBucketedSampler(np.arange(1, 36), 16, 50, seed=0)
    last = [set(sampler.epoch(epoch)[-1].tolist()) for epoch in range(4)]
    assert all(len(batch) == 3 for batch in last)
    assert len(set.union(*last)) > 8


@settings(deadline=None)  # a busy machine is no failure
@given(rows=st.integers(1, 50), micro=st.integers(1, 12), processes=st.integers(1, 5))
def test_micro_batches_cover_the_batch_and_are_equally_many_per_process(rows, micro, processes):
    batch = np.arange(rows)
    assert np.concatenate(split_into_micro_batches(batch, micro, processes)).tolist() == batch.tolist()
    shards = [shard_batch(batch, micro, processes, process) for process in range(processes)]
    assert len({len(shard) for shard in shards}) == 1
    sizes = [len(micro_batch) for shard in shards for micro_batch in shard]
    assert max(sizes) <= micro
    assert max(sizes) - min(sizes) <= 1


@pytest.mark.parametrize(("micro", "processes", "expected"), [(8, 1, [8]), (4, 1, [4, 4]), (1, 2, [1, 1, 1, 1]), (3, 1, [3, 3, 2])])
def test_accumulation_steps_follow_from_micro_batch_and_processes(micro, processes, expected):
    assert [len(micro_batch) for micro_batch in shard_batch(np.arange(8), micro, processes, 0)] == expected
