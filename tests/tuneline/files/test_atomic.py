import os

import pytest

from tuneline.files import replace_directory, replace_file


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


@pytest.mark.parametrize(("mask", "mode"), [(0o022, 0o644), (0o077, 0o600), (0o002, 0o664)])
def test_files_of_a_folder_are_as_open_as_the_umask_has_it(tmp_path, mask, mode):
    """Some libraries write through temporary files, which are their owner's alone: a server of another user could not read the model."""
    former = os.umask(mask)
    try:
        with replace_directory(tmp_path / "classifier") as partial:
            (partial / "inner").mkdir()
            for path in (partial / "model.safetensors", partial / "inner" / "tokenizer.json"):
                os.close(os.open(path, os.O_CREAT | os.O_WRONLY, 0o600))
    finally:
        os.umask(former)
    assert {path.name: path.stat().st_mode & 0o777 for path in tmp_path.rglob("*") if path.is_file()} == {
        "model.safetensors": mode,
        "tokenizer.json": mode,
    }
