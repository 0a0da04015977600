import json

import pytest

from tuneline.errors import StageError
from tuneline.stage import require, run_stage


@pytest.fixture(autouse=True)
def project(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


def leave(main) -> int:
    with pytest.raises(SystemExit) as left:
        run_stage("tokenize", main)
    return left.value.code


def test_a_stage_that_works_leaves_a_note_of_its_cost(project):
    assert leave(lambda: {"rows_per_second": 12.5}) == 0
    timing = json.loads((project / "reports/timing/tokenize.json").read_text())
    assert timing["rows_per_second"] == 12.5
    assert timing["seconds"] >= 0
    assert timing["peak_memory_mb"] > 1


def test_an_error_of_the_user_is_one_clear_message(project, capsys):
    def main():
        raise StageError("train.csv, row 7: no label.", "Fill it in.")

    assert leave(main) == 1
    assert capsys.readouterr().err == "tokenize: train.csv, row 7: no label.\n  Fill it in.\n"
    assert not (project / "reports").exists()


def test_an_interrupted_stage_says_how_to_go_on(capsys):
    def main():
        raise KeyboardInterrupt

    assert leave(main) == 130
    assert "dvc repro" in capsys.readouterr().err


def test_an_error_of_ours_keeps_its_traceback():
    with pytest.raises(ZeroDivisionError):
        run_stage("tokenize", lambda: 1 / 0)


def test_a_missing_input_names_the_stage_that_makes_it(project):
    with pytest.raises(StageError, match=r"dvc repro download"):
        require(project / "data/raw", "download")
