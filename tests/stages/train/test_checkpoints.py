import pytest

from stages.train.checkpoints import MARKER, find_damage, write_marker
from tests.stages.train import made


@pytest.fixture
def checkpoint(tmp_path):
    folder = tmp_path / "step-00000001"
    (folder / "nested").mkdir(parents=True)
    (folder / "model.safetensors").write_bytes(b"weights" * 100)
    (folder / "nested/shard").write_bytes(b"shard")
    write_marker(folder)
    return folder


def test_a_sealed_checkpoint_is_whole(checkpoint):
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
def test_damage_is_seen_and_named(checkpoint, damage, message):
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


def test_the_last_ones_are_kept(stopped):
    assert names(stopped(keep="last", checkpoint_every_steps=3, keep_checkpoints=2)) == ["step-00000012", "step-00000015"]


def test_the_best_one_is_kept_beside_them(stopped):
    """Each checkpoint that a run may go on from finds the best weights of its time."""
    kept = names(
        stopped(keep="best", metric="loss", learning_rate=1e-1, evaluate_every_steps=1, checkpoint_every_steps=3, keep_checkpoints=1)
    )
    assert "step-00000015" in kept
    assert len(kept) == 2


def test_epochs_can_be_the_measure(stopped):
    assert names(stopped(keep="last", checkpoint_every_steps=None, checkpoint_every_epochs=1)) == ["step-00000008", "step-00000016"]


def test_minutes_can_be_the_measure(stopped):
    assert len(names(stopped(keep="last", checkpoint_every_steps=None, checkpoint_every_minutes=1e-9, keep_checkpoints=99))) == 16


def test_nothing_is_saved_when_nothing_asks_for_it(stopped):
    assert names(stopped(keep="last", checkpoint_every_steps=None)) == []
