import pytest

from stages.train import checkpoints
from stages.train.checkpoints import MARKER, find_damage, training_lock, write_marker
from stages.train.devices import create_accelerator
from tests.stages.train import made
from tuneline.errors import StageError


@pytest.fixture
def checkpoint(tmp_path):
    folder = tmp_path / "step-00000001"
    (folder / "nested").mkdir(parents=True)
    (folder / "model.safetensors").write_bytes(b"weights" * 100)
    (folder / "nested/shard").write_bytes(b"shard")
    write_marker(folder)
    return folder


def test_checkpoint_with_marker_is_complete(checkpoint):
    assert find_damage(checkpoint) is None


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (lambda folder: (folder / MARKER).unlink(), "complete.json is missing or unreadable"),
        (lambda folder: (folder / MARKER).write_text('{"model.safe'), "complete.json is missing or unreadable"),
        (lambda folder: (folder / "nested/shard").unlink(), "nested/shard is missing"),
        (lambda folder: (folder / "model.safetensors").write_bytes(b"weights" * 99), "model.safetensors differs from its checksum"),
        (lambda folder: (folder / "model.safetensors").write_bytes(b"wEights" * 100), "model.safetensors differs from its checksum"),
    ],
)
def test_checkpoint_damage_is_detected_and_named(checkpoint, damage, message):
    damage(checkpoint)
    assert message in find_damage(checkpoint)


FILES = {"complete.json", "model.safetensors", "optimizer.bin", "progress.json", "random_states_0.pkl", "scheduler.bin"}


@pytest.fixture
def stopped(project, trained, monkeypatch):
    """Trains 16 steps with a checkpoint every third, and keeps what would be there after a kill."""
    return lambda **train: trained(made.params(**train)).state.checkpoints.folder


def names(folder):
    return [path.name for path in sorted(folder.glob("step-*"))]


def test_a_checkpoint_holds_the_complete_state(stopped):
    folder = stopped(keep="last", checkpoint_every_steps=16)
    assert {path.name for path in (folder / "step-00000016").iterdir()} == FILES


def test_checkpoints_keep_the_last_ones(stopped):
    assert names(stopped(keep="last", checkpoint_every_steps=3, keep_checkpoints=2)) == ["step-00000012", "step-00000015"]


def test_checkpoints_keep_the_best_one_too(stopped):
    """Each checkpoint that a run may resume from finds the best weights of its time."""
    kept = names(
        stopped(keep="best", metric="loss", learning_rate=1e-1, evaluate_every_steps=1, checkpoint_every_steps=3, keep_checkpoints=1)
    )
    assert "step-00000015" in kept
    assert len(kept) == 2


def test_checkpoint_interval_in_epochs(stopped):
    assert names(stopped(keep="last", checkpoint_every_steps=None, checkpoint_every_epochs=1)) == ["step-00000008", "step-00000016"]


def test_checkpoint_interval_in_minutes(stopped):
    assert len(names(stopped(keep="last", checkpoint_every_steps=None, checkpoint_every_minutes=1e-9, keep_checkpoints=99))) == 16


def test_checkpoints_without_an_interval_are_not_written(stopped):
    assert names(stopped(keep="last", checkpoint_every_steps=None)) == []


def test_training_lock_excludes_a_second_training(project, accelerated, monkeypatch):
    accelerator = create_accelerator(made.params())
    monkeypatch.setattr(checkpoints, "LOCK_TIMEOUT", 0.3)
    with (
        training_lock(accelerator),
        pytest.raises(StageError, match=r"Process \d+ is already training in this folder"),
        training_lock(accelerator),
    ):
        pass
    with training_lock(accelerator):
        pass
