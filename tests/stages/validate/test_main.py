"""The stage as DVC runs it: files in, report out, exit code 1 when the data may not be trained on."""

import json
import shutil

import pytest
from ruamel.yaml import YAML

from stages.validate.__main__ import main
from tests.stages.validate.data import Data, good_data
from tuneline.errors import GateError, StageError
from tuneline.paths import REFERENCE_PROFILE
from tuneline.stage import run_stage


@pytest.fixture
def project(tmp_path, monkeypatch):
    """An empty project, which is the current folder."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


def lay_out(data: Data, project) -> None:
    data.write(project / "data")
    YAML().dump(data.params.model_dump(by_alias=True), project / "params.yaml")


@pytest.fixture
def good(project):
    lay_out(good_data(), project)
    return project


@pytest.fixture
def leaking(project):
    """Validation is a copy of train, and one row has a control character."""
    data = good_data()
    data.raw["validation"] = {name: values[:60] for name, values in data.raw["train"].items()}
    data.tokenize()
    data.raw["train"]["one"][70] += "\x07"
    lay_out(data, project)
    return project


def test_good_data_gives_a_report_and_metrics(good):
    assert main()["warnings"] == 0
    assert json.loads((good / "reports/checks/checks.json").read_text())["passed"]
    assert (good / "reports/checks/index.html").exists()
    assert (good / "reports/checks/passed").exists()
    assert json.loads((good / "metrics/validate.json").read_text())["train_rows"] == 200


def test_a_second_run_writes_the_same_bytes(good):
    def written():
        return {path: path.read_bytes() for folder in ("reports", "metrics") for path in (good / folder).rglob("*") if path.is_file()}

    main()
    first = written()
    main()
    assert written() == first


def test_bad_data_ends_with_exit_code_1_after_the_report_is_written(leaking, capsys):
    with pytest.raises(SystemExit) as left:
        run_stage("validate", main)
    assert left.value.code == 1
    assert not json.loads((leaking / "reports/checks/checks.json").read_text())["passed"]
    assert "leakage, validation" in (leaking / "reports/checks/index.html").read_text(encoding="utf-8")
    said = capsys.readouterr()
    assert "leakage, validation: 60 of 60 rows (100 %); allowed: at most 2 %." in said.err
    assert "reports/checks/index.html" in said.err
    assert "warning: control_characters, train: 1 of 200 rows" in said.out


def test_what_an_earlier_run_left_does_not_outlive_bad_data(leaking):
    """Training waits for them: a stale file would let it start."""
    (leaking / "metrics").mkdir()
    (leaking / "metrics/validate.json").write_text("{}")
    (leaking / "reports/checks").mkdir(parents=True)
    (leaking / "reports/checks/passed").touch()
    with pytest.raises(GateError):
        main()
    assert not (leaking / "metrics/validate.json").exists()
    assert not (leaking / "reports/checks/passed").exists()


def test_the_promoted_profile_is_compared_when_there_is_one(good):
    main()
    assert "promoted_rows" in json.loads((good / "reports/checks/checks.json").read_text())["not_run"]
    REFERENCE_PROFILE.parent.mkdir(parents=True)
    shutil.copy("reports/checks/profile.json", REFERENCE_PROFILE)
    main()
    assert json.loads((good / "reports/checks/checks.json").read_text())["not_run"] == []
    assert json.loads((good / "metrics/validate.json").read_text())["train_promoted_rows"] == 1


@pytest.mark.parametrize(("file", "stage"), [("data/raw/test.parquet", "download"), ("data/tokenized/train.parquet", "tokenize")])
def test_a_missing_file_is_told_with_the_stage_that_makes_it(good, file, stage):
    (good / file).unlink()
    with pytest.raises(StageError, match=f"dvc repro {stage}"):
        main()
