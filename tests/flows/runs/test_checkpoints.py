"""Checkpoints outlive the machine that computed them, and a storage that cannot be used stops no training."""

import itertools
import json
import shutil
import signal
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path

import fsspec
import pytest

from flows.runs import checkpoints
from flows.runs.checkout import RunSpec
from flows.runs.checkpoints import KEPT, MARKER, SharedCheckpoints, StorageError, open_storage
from stages.train import checkpoints as training_checkpoints
from tests.flows.prefect_server import until
from tests.stages.train import launcher, tiny_task
from tests.stages.train.conftest import fill

KEY = "0123456789abcdef"
SPEC = RunSpec("main", "c0ffee", ("train.epochs=2",))


@pytest.fixture(params=["folder", "address"])
def storage(request, tmp_path):
    """File system and folder: of the machine, and one that fsspec knows by an address."""
    files, root = open_storage(
        tmp_path, "shared" if request.param == "folder" else "memory://shared/checkpoints"
    )
    yield files, root
    if request.param == "address":
        files.rm(root, recursive=True)


def shared(storage, here: Path, name="nightly-1", spec=SPEC, warn=pytest.fail) -> SharedCheckpoints:
    return SharedCheckpoints(*storage, here / "checkpoints", name, spec, warn)


def save(checkout: Path, *steps: int, complete: bool = True) -> None:
    """Write checkpoints as the training does: the marker is there once they are complete."""
    for step in steps:
        folder = checkout / "checkpoints" / KEY / f"step-{step:08d}"
        (folder / "rank-0").mkdir(parents=True)
        (folder / "model.safetensors").write_bytes(bytes([step]) * 100)
        (folder / "rank-0" / "random_states.pkl").write_bytes(b"states")
        training_checkpoints.write_marker(folder)
        (folder.parent / "run.json").touch()
        if not complete:
            (folder / MARKER).unlink()


def steps_in(checkout: Path) -> dict[int, str | None]:
    """Return the steps of a checkout, each with what the training finds wrong with it."""
    return {
        int(path.name[5:]): training_checkpoints.find_damage(path)
        for path in checkout.glob("checkpoints/*/step-*")
    }


def test_marker_is_that_of_the_training():
    assert training_checkpoints.MARKER == MARKER


def test_copies_follow_the_training_and_give_whole_checkpoints_elsewhere(storage, tmp_path):
    here, there = tmp_path / "here", tmp_path / "there"
    save(here, 10, 20)
    save(here, 30, complete=False)
    run, other = shared(storage, here), shared(storage, there)
    assert other.fetch() is None, "there is nothing yet"
    run.copy(time.time() + 60)
    assert other.fetch() is None, "they are of an earlier training"
    run.copy(0)
    shutil.rmtree(here / "checkpoints" / KEY / "step-00000010")
    shutil.rmtree(here / "checkpoints" / KEY / "step-00000030")
    save(here, 40)
    run.copy(0)
    shutil.rmtree(here / "checkpoints")
    run.copy(0)  # the training has ended, but not the run
    assert other.fetch() == "step-00000040 of run nightly-1"
    assert steps_in(there) == {20: None, 40: None}
    assert other.fetch() is None, "what is there is not older"

    later = shared(storage, tmp_path / "later", "on-demand-2")
    assert later.fetch() == "step-00000040 of run nightly-1", "it trains the same model"
    unlike = shared(storage, tmp_path / "other", "on-demand-3", RunSpec("main", "c0ffee"))
    assert unlike.fetch() is None, "other parameters"
    later.remove()
    assert not storage[0].exists(f"{storage[1]}/nightly-1")


@pytest.mark.parametrize("files", [3, 4, 5])
@pytest.mark.promise("half-copied-checkpoint")
def test_half_a_copy_is_not_fetched_and_is_completed_by_the_next_attempt(
    storage, tmp_path, monkeypatch, files
):
    """The machine is lost while it copies the second of two checkpoints, of three files each."""
    here, there = tmp_path / "here", tmp_path / "there"
    save(here, 10, 20)
    run, calls = shared(storage, here), itertools.count()
    other = shared(storage, there)
    put_file = run.files.put_file

    def put(*arguments) -> None:
        if next(calls) == files:
            raise ConnectionError
        put_file(*arguments)

    monkeypatch.setattr(run.files, "put_file", put)
    with pytest.raises(ConnectionError):
        run.copy(0)
    monkeypatch.undo()
    assert other.fetch() == "step-00000010 of run nightly-1"
    assert steps_in(there) == {10: None}
    run.copy(0)
    assert other.fetch() == "step-00000020 of run nightly-1"
    assert steps_in(there) == {10: None, 20: None}


def test_copies_of_runs_that_never_succeeded_are_removed_after_a_month(storage, tmp_path):
    save(tmp_path / "here", 10)
    shared(storage, tmp_path / "here", "failed").copy(0)
    run = shared(storage, tmp_path / "there")
    record = f"{run.root}/failed/run.json"
    old = (datetime.now(UTC) - KEPT - timedelta(hours=1)).isoformat()
    run.files.pipe_file(
        record, json.dumps({**json.loads(run.files.cat_file(record)), "copied": old}).encode()
    )
    assert run.fetch() is None
    assert not run.files.exists(f"{run.root}/failed")


@pytest.mark.promise("checkpoint-storage")
def test_unusable_storage_is_reported_once_and_stops_no_training(tmp_path, monkeypatch):
    (tmp_path / "shared").write_text("a file")
    monkeypatch.setattr(checkpoints, "COPY_EVERY", 0.02)
    monkeypatch.setattr(checkpoints, "FETCH_AFTER", (0, 0))
    messages = []
    run = shared(open_storage(tmp_path, "shared"), tmp_path / "here", warn=messages.append)
    save(tmp_path / "here", 10)
    assert run.fetch() is None
    with run.copied():
        until(lambda: len(messages) == 2, 5, "the warning")
        (tmp_path / "shared").unlink()  # it is back
        until((tmp_path / "shared/nightly-1/run.json").exists, 5, "the copy")
    assert [message.partition(":")[0] for message in messages] == [
        "Earlier checkpoints could not be fetched",
        "The last checkpoint was not copied",
    ]


@pytest.mark.parametrize(
    ("where", "problem"),
    [
        ("nosuch://bucket/x", "Protocol not known"),
        ("https://me:t0p@example.com/x", r"https://\*\*\*@example.com/x is on HTTP, which lists no files"),
        ("dvc", "DVC has no default remote"),
    ],
)
def test_address_that_cannot_be_used_is_an_error_that_names_the_setting(tmp_path, where, problem):
    (tmp_path / ".dvc").mkdir()
    with pytest.raises(StorageError, match=f"training.checkpoints in conf/flows.yaml: .*{problem}"):
        open_storage(tmp_path, where)


def test_dvc_remote_gets_a_folder_beside_the_data(tmp_path):
    (tmp_path / ".dvc").mkdir()
    (tmp_path / "shelf").mkdir()
    (tmp_path / ".dvc" / "config").write_text(
        "[core]\n    remote = shelf\n['remote \"shelf\"']\n    url = ../shelf\n"
    )
    files, root = open_storage(tmp_path, "dvc")
    assert (type(files), root) == (type(fsspec.filesystem("file")), str(tmp_path / "shelf" / "checkpoints"))


@pytest.mark.slow  # four real trainings
@pytest.mark.promise("lost-worker-machine")
def test_training_of_a_lost_machine_gives_the_same_bytes_on_another(tmp_path, tmp_path_factory, monkeypatch):
    data = tmp_path_factory.mktemp("data")
    tiny_task.write_data(data)
    projects = {}
    for name in ("undisturbed", "lost", "other"):
        projects[name] = fill(tmp_path / name, data)
        tiny_task.write_params(projects[name], epochs=3, checkpoint_every_steps=3)
    assert launcher.run(projects["undisturbed"]) == [0]
    expected = launcher.outs(projects["undisturbed"])

    storage = open_storage(tmp_path, "shared")
    monkeypatch.setattr(checkpoints, "COPY_EVERY", 0.02)
    with shared(storage, projects["lost"]).copied():
        assert launcher.run(
            projects["lost"], before=launcher.kill_at("stages.train.loop.train_batch", 20)
        ) == [-signal.SIGKILL]
        until(lambda: len(list((tmp_path / "shared").glob(f"*/*/*/{MARKER}"))) >= 2, 10, "the copies")
    shutil.rmtree(projects["lost"])

    assert shared(storage, projects["other"]).fetch()
    assert launcher.run(projects["other"]) == [0], launcher.output(projects["other"])
    assert "resumes from step" in launcher.output(projects["other"])
    assert launcher.outs(projects["other"]) == expected
