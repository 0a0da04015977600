import pytest

from stages.train.checkpoints import MARKER, find_damage, write_marker


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
        (
            lambda folder: (folder / MARKER).write_text('{"model.safe'),
            "complete.json is missing or unreadable",
        ),
        (lambda folder: (folder / "nested/shard").unlink(), "nested/shard is missing"),
        (
            lambda folder: (folder / "model.safetensors").write_bytes(b"weights" * 99),
            "model.safetensors differs from its checksum",
        ),
        (
            lambda folder: (folder / "model.safetensors").write_bytes(b"wEights" * 100),
            "model.safetensors differs from its checksum",
        ),
    ],
)
def test_checkpoint_damage_is_detected_and_named(checkpoint, damage, message):
    damage(checkpoint)
    assert message in find_damage(checkpoint)
