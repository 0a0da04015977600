"""Training on documents in several windows: an example is a document, and a batch counts windows."""

import signal

import numpy as np
import pyarrow.parquet as pq
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from tests.tuneline.training import launcher, tiny_task
from tests.tuneline.training.conftest import fill
from tests.tuneline.training.test_frozen_head import FROZEN, prepared_with
from tuneline.core.stage.tables import SplitReader
from tuneline.model.linear.pooled_classifier import load_classifier
from tuneline.model.tokens.tokenized_splits import TokenizedSplit
from tuneline.training.data import shard_batch, split_into_micro_batches
from tuneline.training.loop import shard_split

ROWS = 57  # the last batch is one document: one of two processes has an empty micro-batch


@pytest.fixture
def documents(project):
    """A project of documents in windows, as the working directory."""
    tiny_task.write_documents(project)
    return project


def losses(result):
    return [row.loss for row in result.state.progress.logged]


@pytest.mark.parametrize(
    "limits", [{"micro_batch_size": 4}, pytest.param({"micro_batch_size": 1}, marks=pytest.mark.slow)]
)
def test_losses_do_not_depend_on_how_the_windows_are_divided(documents, trained, limits):
    whole = trained(tiny_task.params(tiny_task.WITHOUT_DROPOUT, micro_batch_size=8))
    other = trained(tiny_task.params(tiny_task.WITHOUT_DROPOUT, **{"micro_batch_size": 8, **limits}))
    assert losses(other) == pytest.approx(losses(whole), abs=1e-5)


def test_loss_of_a_step_is_the_mean_over_the_documents(documents, trained):
    """And not over the windows. By the first step of a run, before which the weights are new."""
    result = trained(
        tiny_task.params(tiny_task.WITHOUT_DROPOUT, max_steps=1, epochs=None, learning_rate=1e-12)
    )
    state = result.state
    rows = state.sampler.epoch(0)[0]
    split = state.train_loader.split
    expected = []
    with torch.no_grad():
        for row in rows:
            batch = split.pad(np.array([row]), 0)
            inputs = {name: torch.from_numpy(values) for name, values in batch.items()}
            answer = state.model(**inputs).logits.mean(dim=0)
            label = torch.tensor(split.labels[row])
            expected.append(float(torch.nn.functional.cross_entropy(answer, label)))
    assert len(rows) == 8
    assert losses(result)[0] == pytest.approx(np.mean(expected), abs=1e-4)


@pytest.mark.parametrize(
    "lora",
    [
        None,
        pytest.param({"rank": 4, "alpha": 8, "dropout": 0.0, "target_modules": None}, marks=pytest.mark.slow),
    ],
)
def test_logits_of_validation_are_those_of_the_documents(documents, trained, lora):
    result = trained(tiny_task.params(tiny_task.WITHOUT_DROPOUT, lora=lora))
    split = result.state.validation_loader.split
    assert result.logits.shape == (21, 3)
    model = result.model.eval()
    for row in range(3):
        batch = split.pad(np.array([row]), 0)
        with torch.no_grad():
            inputs = {name: torch.from_numpy(values) for name, values in batch.items()}
            expected = model(**inputs).logits.mean(dim=0)
        np.testing.assert_allclose(result.logits[row], expected.numpy(), atol=1e-5)


def prepared(folder, data, launch="cpu", **train):
    tiny_task.write_documents(fill(folder, data), rows=ROWS)
    settings = {"checkpoint_every_steps": 3, "micro_batch_size": 2, "epochs": 2, **train}
    tiny_task.write_params(folder, tiny_task.WITHOUT_DROPOUT, launch=launch, **settings)
    return folder


@pytest.mark.slow
def test_resume_after_sigkill_gives_identical_outs(tmp_path_factory, data):
    whole = prepared(tmp_path_factory.mktemp("whole"), data)
    killed = prepared(tmp_path_factory.mktemp("killed"), data)
    assert launcher.run(whole) == [0], launcher.output(whole)
    instant = launcher.kill_at("tuneline.training.loop._seed_dropout", 60)
    assert launcher.run(killed, before=instant) == [-signal.SIGKILL]
    assert launcher.run(killed) == [0], launcher.output(killed)
    assert "resumes from step" in launcher.output(killed)
    assert launcher.outs(killed) == launcher.outs(whole)


def test_frozen_head_gives_the_mean_of_the_logits_of_the_windows(tmp_path, data):
    project = prepared_with(tmp_path, data, FROZEN)
    tiny_task.write_documents(project)
    assert launcher.run(project) == [0], launcher.output(project)
    model = load_classifier(project / "models/classifier", "sdpa")
    split = TokenizedSplit.read(SplitReader.open(project / "data/tokenized", "validation", "tokenize"))
    published = np.stack(pq.read_table(project / "reports/validation.parquet")["logits"].to_numpy())
    for row in range(5):
        batch = split.pad(np.array([row]), 0)
        with torch.no_grad():
            inputs = {name: torch.from_numpy(values) for name, values in batch.items()}
            logits = model(**inputs).logits.numpy()
            vector = model.features(inputs["input_ids"], inputs["attention_mask"]).mean(dim=0)
            of_vector = model.head(vector).numpy()
        np.testing.assert_allclose(published[row], logits.mean(axis=0), atol=1e-4)
        np.testing.assert_allclose(published[row], of_vector, atol=1e-4)


SPLITS = {
    "windows": st.lists(st.integers(1, 7), min_size=1, max_size=40),
    "size": st.integers(1, 10),
    "processes": st.integers(1, 3),
}


@given(**SPLITS)
def test_micro_batches_are_as_many_for_each_process_and_bounded_by_windows(windows, size, processes):
    counts = np.array(windows)
    batch = np.arange(len(counts))
    parts = split_into_micro_batches(batch, size, processes, counts)
    assert np.concatenate(parts).tolist() == batch.tolist()
    assert len(parts) % processes == 0
    assert all(counts[part].sum() <= size or len(part) == 1 for part in parts)
    shards = [shard_batch(batch, size, processes, process, counts) for process in range(processes)]
    assert len({len(shard) for shard in shards}) == 1


@given(**SPLITS)
def test_shards_of_an_evaluation_are_bounded_by_windows(windows, size, processes):
    counts = np.array(windows)
    shards = shard_split(counts * 10, size, processes, counts)
    assert len({len(shard) for shard in shards}) == 1
    rows = sorted(int(row) for shard in shards for part in shard for row in part)
    assert rows == list(range(len(counts)))
    for shard in shards:
        assert all(counts[part].sum() <= size or len(part) == 1 for part in shard)
