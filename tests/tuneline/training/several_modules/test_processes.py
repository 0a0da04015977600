"""Distributed runs on the CPU: two processes over gloo, started as torchrun starts them."""

import os
import signal
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest
from safetensors.numpy import load_file

from tests.tuneline.training import launcher, tiny_task
from tests.tuneline.training.conftest import fill
from tests.tuneline.training.test_frozen_head import prepared_with
from tests.tuneline.training.test_launch import environment

BEGINNING = {"epochs": 1, "learning_rate": 1e-4, "contrastive": 0.5}
ROWS = 57  # the last batch is one row: one of two processes has an empty micro-batch


def prepared(folder, data, launch, **train):
    tiny_task.write_data(fill(folder, data), rows=ROWS)
    settings = {"checkpoint_every_steps": 3, "micro_batch_size": 2, "epochs": 2, **train}
    tiny_task.write_params(
        folder, {**tiny_task.WITHOUT_DROPOUT, "vocab_size": 200}, launch=launch, **settings
    )
    return folder


@pytest.fixture(scope="module")
def one(tmp_path_factory, data):
    """A project trained by one process."""
    project = prepared(tmp_path_factory.mktemp("one"), data, "cpu")
    assert launcher.run(project) == [0], launcher.output(project)
    return project


@pytest.fixture(scope="module")
def two(tmp_path_factory, data):
    """The same run by two processes with replicated parameters (DDP)."""
    project = prepared(tmp_path_factory.mktemp("two"), data, "auto")
    assert launcher.run(project, 2) == [0, 0], launcher.output(project)
    return project


@pytest.fixture(scope="module")
def sharded(tmp_path_factory, data):
    """The same run by two processes with sharded parameters (FSDP)."""
    project = prepared(tmp_path_factory.mktemp("sharded"), data, "fsdp")
    assert launcher.run(project, 2, FSDP) == [0, 0], launcher.output(project)
    return project


FSDP = environment("fsdp") | {"ACCELERATE_MIXED_PRECISION": "no"}
"""Environment of conf/accelerate/fsdp.yaml in float32, which can be compared to more digits."""


@pytest.mark.parametrize("many", ["two", "sharded"])
def test_two_processes_have_the_loss_curve_of_one(one, many, request):
    project = request.getfixturevalue(many)
    ours, expected = launcher.curve(project), launcher.curve(one)
    assert len(ours) == 16
    assert [row[0] for row in ours] == [row[0] for row in expected]
    assert [row[1] for row in ours] == pytest.approx([row[1] for row in expected], abs=1e-4)
    assert [row[3] for row in ours] == pytest.approx([row[3] for row in expected], rel=1e-3)


@pytest.mark.parametrize("many", ["two", "sharded"])
def test_two_processes_predict_each_validation_row_once_and_in_order(one, many, request):
    ours, expected = (
        pq.read_table(folder / "reports/validation.parquet")
        for folder in (request.getfixturevalue(many), one)
    )
    assert ours["idx"].to_pylist() == list(range(len(expected)))
    assert ours["label"] == expected["label"]
    assert np.stack(ours["logits"].to_numpy()) == pytest.approx(
        np.stack(expected["logits"].to_numpy()), abs=1e-3
    )


@pytest.mark.parametrize("many", ["two", "sharded"])
def test_two_processes_write_one_set_of_outs(one, many, request):
    project = request.getfixturevalue(many)
    assert launcher.outs(project).keys() == launcher.outs(one).keys()
    weights, expected = (
        load_file(folder / "models/classifier/model.safetensors") for folder in (project, one)
    )
    assert {name: values.shape for name, values in weights.items()} == {
        name: values.shape for name, values in expected.items()
    }
    assert "step 8: validation" not in launcher.output(project, rank=1), "only the main process logs"


@pytest.mark.parametrize(
    ("launch", "env"), [("auto", {}), pytest.param("fsdp", FSDP, marks=pytest.mark.slow)]
)
def test_two_processes_begin_with_the_linear_model_of_one(tmp_path, data, launch, env):
    model = {**tiny_task.FINE_TUNED, "config": tiny_task.WITHOUT_DROPOUT, "head": "auto"}
    curves = []
    for processes, how, rows in ((1, "cpu", 8), (2, launch, 2)):
        train = {**BEGINNING, "launch": how, "micro_batch_size": rows}
        folder = prepared_with(tmp_path / str(processes), data, model, **train)
        assert launcher.run(folder, processes, env if processes == 2 else {}) == [0] * processes, (
            launcher.output(folder)
        )
        curves.append([row[1] for row in launcher.curve(folder)])
    assert curves[1] == pytest.approx(curves[0], abs=1e-3)


def test_fsdp_on_the_cpu_shards_the_parameters(sharded):
    """accelerate alone would train two whole copies on the CPU."""
    assert "2 process(es), FSDP" in launcher.output(sharded)


@pytest.mark.parametrize(
    ("launch", "env"),
    [("auto", {}), pytest.param("fsdp", FSDP, marks=pytest.mark.slow)],
)
def test_resume_after_sigkill_of_two_processes_gives_identical_outs(tmp_path, data, launch, env, request):
    reference = request.getfixturevalue("two" if launch == "auto" else "sharded")
    project = prepared(tmp_path, data, launch)
    children = launcher.start(
        project, 2, env, before=launcher.kill_at("tuneline.training.loop.train_batch", 12)
    )
    assert launcher.finish(children) == [-signal.SIGKILL] * 2
    assert launcher.run(project, 2, env) == [0, 0], launcher.output(project)
    assert "resumes from step" in launcher.output(project)
    assert launcher.outs(project) == launcher.outs(reference)


def test_signal_to_one_process_saves_a_checkpoint_in_both(tmp_path, data, two):
    """While they run, both map the same file of tokens."""
    project = prepared(tmp_path, data, "auto")
    children = launcher.start(project, 2)
    launcher.wait_for(project / "checkpoints", "step-*")
    mapped = [Path(f"/proc/{child.pid}/maps").read_text() for child in children]
    (ids,) = (project / "data/.tokenized.mapped").glob("train-*/input_ids")
    inode = ids.stat().st_ino
    assert all(f" {inode} " in maps for maps in mapped)
    os.kill(children[1].pid, signal.SIGTERM)
    assert launcher.finish(children) == [75, 75]
    assert launcher.run(project, 2) == [0, 0]
    assert launcher.outs(project) == launcher.outs(two)
