import pytest

from stages.outs import replace_directory, replace_file


class Broken(Exception):
    """Stands for anything that ends a block."""


def test_a_file_appears_only_when_its_block_ends(tmp_path):
    target = tmp_path / "made" / "model.bin"
    with replace_file(target) as partial:
        partial.write_text("new")
        assert not target.exists()
    assert target.read_text() == "new"
    assert list(target.parent.iterdir()) == [target]


def test_a_broken_block_leaves_the_former_file(tmp_path):
    target = tmp_path / "model.bin"
    target.write_text("old")
    with pytest.raises(Broken), replace_file(target) as partial:
        partial.write_text("half")
        raise Broken
    assert target.read_text() == "old"
    assert list(tmp_path.iterdir()) == [target]


def test_a_folder_takes_the_place_of_the_former_one(tmp_path):
    target = tmp_path / "raw"
    target.mkdir()
    (target / "stale").touch()
    with replace_directory(target) as partial:
        (partial / "fresh").touch()
        assert (target / "stale").exists()
    assert [path.name for path in target.iterdir()] == ["fresh"]
    assert list(tmp_path.iterdir()) == [target]


def test_a_broken_block_leaves_the_former_folder(tmp_path):
    target = tmp_path / "raw"
    target.mkdir()
    (target / "old").touch()
    with pytest.raises(Broken), replace_directory(target) as partial:
        (partial / "half").touch()
        raise Broken
    assert [path.name for path in target.iterdir()] == ["old"]
    assert list(tmp_path.iterdir()) == [target]


def test_what_a_killed_run_left_is_cleared(tmp_path):
    target = tmp_path / "raw"
    leftover = tmp_path / ".raw.partial"
    leftover.mkdir()
    (leftover / "half").touch()
    with replace_directory(target) as partial:
        (partial / "whole").touch()
    assert [path.name for path in target.iterdir()] == ["whole"]
