"""A run that was stopped goes on with other processes or micro-batches: the same batches, and the same losses
up to rounding."""

import json
import shutil
import signal
from functools import partial

import pytest
from accelerate.utils import DistributedType

from stages.train.checkpoints import run_identity
from stages.train.devices import create_accelerator
from stages.train.progress import TrainingProgress
from tests.stages.train import launcher, tiny_task
from tests.stages.train.conftest import fill
from tuneline.core.hashes import content_key
from tuneline.core.training_devices import TrainingSegment

ROWS = 57  # the last batch is one row
STEPS = 24
SETTINGS = {"epochs": 3, "checkpoint_every_steps": 3, "evaluate_every_steps": 5}
KILLED = partial(launcher.record_and_kill, "stages.train.loop._optimizer_step", 8)


def prepared(folder, data, micro_batch_size=4, model=tiny_task.WITHOUT_DROPOUT):
    tiny_task.write_data(fill(folder, data), rows=ROWS)
    tiny_task.write_params(folder, model, launch="auto", micro_batch_size=micro_batch_size, **SETTINGS)
    return folder


def segment(step=0, processes=1, micro_batch_size=4):
    return TrainingSegment(
        step=step, device="cpu", processes=processes, micro_batch_size=micro_batch_size, threads=1
    )


def test_layout_is_no_part_of_the_key_unless_checkpoints_are_sharded(project, accelerated, monkeypatch):
    accelerator = create_accelerator(tiny_task.params())

    def key(processes, distribution, **train):
        monkeypatch.setattr(type(accelerator), "num_processes", processes)
        monkeypatch.setattr(type(accelerator), "distributed_type", distribution)
        return content_key(run_identity(tiny_task.params(**train), accelerator, [], []))

    alone = key(1, DistributedType.NO)
    assert alone == key(2, DistributedType.MULTI_CPU) == key(2, DistributedType.MULTI_GPU, micro_batch_size=2)
    assert alone != key(1, DistributedType.NO, global_batch_size=16)
    sharded = {key(2, DistributedType.FSDP), key(3, DistributedType.FSDP)}
    monkeypatch.setenv("FSDP_OFFLOAD_PARAMS", "true")
    assert len({alone, *sharded, key(2, DistributedType.FSDP)}) == 4


def test_segments_are_those_that_have_trained(tmp_path):
    progress = TrainingProgress()
    assert progress.begin_segment(segment()) is None
    assert progress.begin_segment(segment(0, 2)) is None, "the first one took no step"
    assert progress.begin_segment(segment(6, 2)) is None, "the layout is the same"
    assert progress.begin_segment(segment(9, 1)) == segment(0, 2)
    progress.write(tmp_path / "progress.json")
    assert TrainingProgress.read(tmp_path / "progress.json") == progress
    assert progress.segments == [segment(0, 2), segment(9, 1)]


@pytest.fixture(scope="module")
def whole(tmp_path_factory, data):
    """A project trained by one process, without an interruption."""
    project = prepared(tmp_path_factory.mktemp("whole"), data)
    assert launcher.run(project, before=launcher.record_batches) == [0], launcher.output(project)
    return project


@pytest.mark.slow
@pytest.mark.parametrize(
    ("before", "after"),
    [((1, 4), (2, 4)), ((2, 2), (1, 8)), ((1, 4), (1, 2))],
    ids=["1to2", "2to1", "smaller"],
)
@pytest.mark.promise("resume-elsewhere")
def test_run_resumed_with_another_layout_has_the_batches_and_losses_of_the_whole_run(
    whole, tmp_path, data, before, after
):
    project = prepared(tmp_path, data, before[1])
    assert launcher.run(project, before[0], before=KILLED) == [-signal.SIGKILL] * before[0]
    prepared_again = dict(launch="auto", micro_batch_size=after[1], **SETTINGS)
    tiny_task.write_params(project, tiny_task.WITHOUT_DROPOUT, **prepared_again)
    assert launcher.run(project, after[0], before=launcher.record_batches) == [0] * after[0], launcher.output(
        project
    )
    assert "resumes from step " in launcher.output(project)
    assert "WARNING: the checkpoint was computed by" in launcher.output(project)

    assert launcher.batches(project) == launcher.batches(whole)
    for name, tolerances in {"loss": (None, 1e-4, 0, 1e-3), "validation": (None, 1e-4, 1e-4)}.items():
        ours, expected = launcher.curve(project, name), launcher.curve(whole, name)
        assert [row[0] for row in ours] == [row[0] for row in expected]
        for column, tolerance in enumerate(tolerances[1:], start=1):
            difference = max(abs(a[column] - b[column]) for a, b in zip(ours, expected, strict=True))
            print(f"{before} to {after}: {name}, column {column}: largest difference {difference:.2e}")
            assert difference <= tolerance
    batches = launcher.batches(project)
    epochs = [
        sorted(row for step in range(first, first + 8) for row in batches[step]) for first in (0, 8, 16)
    ]
    assert epochs == [list(range(ROWS))] * 3, "an example was lost or came twice"


@pytest.mark.slow
def test_resume_with_more_processes_and_dropout_is_deterministic(tmp_path, data):
    """The second process has no random state in the checkpoint."""
    first, second = tmp_path / "first", tmp_path / "second"
    first.mkdir()
    prepared(first, data, model=None)
    launcher.run(first, before=KILLED)
    shutil.copytree(first, second)
    for project in (first, second):
        assert launcher.run(project, 2) == [0, 0], launcher.output(project)
    assert launcher.outs(first) == launcher.outs(second)


@pytest.mark.slow
def test_micro_batches_stay_as_small_as_memory_made_them(tmp_path, data):
    """A run that ran out of memory goes on with the size that fitted, with the bytes of an uninterrupted
    run."""
    folders = [tmp_path / name for name in ("whole", "resumed")]
    for project in folders:
        project.mkdir()
        prepared(project, data)
    assert launcher.run(folders[0], before=launcher.limit_memory) == [0], launcher.output(folders[0])
    launcher.run(folders[1], before=partial(launcher.limit_memory, 12))
    (saved,) = sorted(folders[1].glob("checkpoints/*/step-*"))[-1:]
    assert json.loads((saved / "progress.json").read_text())["segments"][0]["micro_batch_size"] == 2
    assert launcher.run(folders[1]) == [0], "enough memory this time"
    assert launcher.outs(folders[1]) == launcher.outs(folders[0])
