import json
import os

import pytest

from tuneline.files import replace_directory, replace_file, write_json, write_metrics


class Broken(Exception):
    """Stands for any error that ends a block."""


def test_replace_file_creates_the_file_only_when_the_block_ends(tmp_path):
    target = tmp_path / "made" / "model.bin"
    with replace_file(target) as partial:
        partial.write_text("new")
        assert not target.exists()
    assert target.read_text() == "new"
    assert list(target.parent.iterdir()) == [target]


def test_replace_file_keeps_the_previous_file_after_an_error(tmp_path):
    target = tmp_path / "model.bin"
    target.write_text("old")
    with pytest.raises(Broken), replace_file(target) as partial:
        partial.write_text("half")
        raise Broken
    assert target.read_text() == "old"
    assert list(tmp_path.iterdir()) == [target]


def test_replace_directory_replaces_the_previous_folder(tmp_path):
    target = tmp_path / "raw"
    target.mkdir()
    (target / "stale").touch()
    with replace_directory(target) as partial:
        (partial / "fresh").touch()
        assert (target / "stale").exists()
    assert [path.name for path in target.iterdir()] == ["fresh"]
    assert list(tmp_path.iterdir()) == [target]


def test_replace_directory_keeps_the_previous_folder_after_an_error(tmp_path):
    target = tmp_path / "raw"
    target.mkdir()
    (target / "old").touch()
    with pytest.raises(Broken), replace_directory(target) as partial:
        (partial / "half").touch()
        raise Broken
    assert [path.name for path in target.iterdir()] == ["old"]
    assert list(tmp_path.iterdir()) == [target]


def test_replace_directory_removes_leftovers_of_a_killed_run(tmp_path):
    target = tmp_path / "raw"
    leftover = tmp_path / ".raw.partial"
    leftover.mkdir()
    (leftover / "half").touch()
    with replace_directory(target) as partial:
        (partial / "whole").touch()
    assert [path.name for path in target.iterdir()] == ["whole"]


@pytest.mark.parametrize(("mask", "mode"), [(0o022, 0o644), (0o077, 0o600), (0o002, 0o664)])
def test_replace_directory_applies_the_umask(tmp_path, mask, mode):
    """Some libraries write through temporary files that only their owner can read, so a server of another user could not read the model."""
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


def test_write_metrics_rounds_floats_and_keeps_integers(tmp_path):
    path = tmp_path / "metrics" / "evaluate.json"
    write_metrics(path, {"rows": 408, "accuracy": 2 / 3})
    assert path.read_text() == '{\n  "rows": 408,\n  "accuracy": 0.666667\n}\n'


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_write_metrics_refuses_nan_and_infinity_by_name(tmp_path, value):
    with pytest.raises(ValueError, match="'loss' is"):
        write_metrics(tmp_path / "train.json", {"loss": value})
    assert not list(tmp_path.iterdir())


def test_write_json_refuses_nan(tmp_path):
    with pytest.raises(ValueError, match="JSON"):
        write_json(tmp_path / "x.json", {"deep": [float("nan")]})


def test_write_json_does_not_escape_text(tmp_path):
    write_json(tmp_path / "x.json", {"name": "Zürich"})
    assert "Zürich" in (tmp_path / "x.json").read_text(encoding="utf-8")
    assert json.loads((tmp_path / "x.json").read_text(encoding="utf-8")) == {"name": "Zürich"}
