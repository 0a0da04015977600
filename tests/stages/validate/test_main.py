"""The stage as DVC runs it: files in, report out, exit code 78 when the data must not be trained on."""

import json
import shutil
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest
from ruamel.yaml import YAML

from stages.validate import main
from tests.custom_functions import write_functions
from tests.params import change_params
from tests.tuneline.checks.data import Data, good_data
from tuneline.core.paths import REFERENCE_PROFILE, SPLITS, split_file
from tuneline.core.runtime.errors import DataError, GateError, ParamsError
from tuneline.core.stage.entry import run_stage
from tuneline.core.stage.tables import GROUP_COLUMN, shard_file, write_numbers, write_table


@pytest.fixture
def project(tmp_path, monkeypatch):
    """Return an empty project, which is the current folder."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


def write_project(data: Data, project) -> None:
    data.write(project / "data")
    YAML().dump(data.params.model_dump(by_alias=True), project / "params.yaml")


@pytest.fixture(scope="module")
def valid(tmp_path_factory):
    """Return a project in which the stage has passed, and its result. Copy it."""
    folder = tmp_path_factory.mktemp("valid")
    write_project(good_data(), folder)
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        return folder, main()


@pytest.fixture
def valid_project(valid, project):
    """Return a project in which the stage has passed, the current folder."""
    shutil.copytree(valid[0], project, dirs_exist_ok=True)
    return project


def write_leaking_project(project) -> None:
    """Write a project whose validation split is a copy of train, with one control character in train."""
    data = good_data()
    data.raw["validation"] = {name: values[:60] for name, values in data.raw["train"].items()}
    data.tokenize()
    data.raw["train"]["one"][70] += "\x07"
    write_project(data, project)


@pytest.fixture
def leaking_project(project):
    write_leaking_project(project)
    return project


@pytest.fixture(scope="module")
def leaking(tmp_path_factory):
    """Return a project with outs of an earlier run in which the stage has failed, and its error. Copy it."""
    folder = tmp_path_factory.mktemp("leaking")
    write_leaking_project(folder)
    (folder / "metrics").mkdir()
    (folder / "metrics/validate.json").write_text("{}")
    (folder / "reports/checks").mkdir(parents=True)
    (folder / "reports/checks/passed").touch()
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        with pytest.raises(GateError) as failed:
            main()
    return folder, failed.value


def test_valid_data_gives_report_and_metrics(valid, valid_project):
    assert valid[1]["warnings"] == 0
    assert json.loads((valid_project / "reports/checks/checks.json").read_text())["passed"]
    assert (valid_project / "reports/checks/index.html").exists()
    assert (valid_project / "reports/checks/passed").exists()
    assert json.loads((valid_project / "metrics/validate.json").read_text())["warnings"] == 0


def test_second_run_writes_identical_bytes(valid_project):
    def written():
        return {
            path: path.read_bytes()
            for folder in ("reports", "metrics")
            for path in (valid_project / folder).rglob("*")
            if path.is_file()
        }

    first = written()
    main()
    assert written() == first


def test_bad_data_exits_with_78_after_writing_the_report(leaking_project, capsys):
    with pytest.raises(SystemExit) as exit_info:
        run_stage("validate", main)
    assert exit_info.value.code == 78
    assert not json.loads((leaking_project / "reports/checks/checks.json").read_text())["passed"]
    assert "leakage, validation" in (leaking_project / "reports/checks/index.html").read_text(
        encoding="utf-8"
    )
    assert pq.read_metadata("reports/checks/rows/leakage.parquet").num_rows == 60
    output = capsys.readouterr()
    assert "leakage, validation: 60 of 60 rows (100 %); allowed: at most 2 %, or 1 row." in output.err
    assert "reports/checks/index.html" in output.err
    assert "warning: control_characters, train: 1 of 200 rows" in output.out


def test_leaks_are_a_warning_where_rows_are_divided_by_time(leaking_project, capsys):
    change_params(leaking_project, {"data.split": {"by_time": "day"}})
    main()
    assert "warning: leakage, validation: 60 of 60 rows" in capsys.readouterr().out
    change_params(leaking_project, {"validate.severity": {"leakage": "error"}})
    with pytest.raises(GateError):
        main()


def test_terminal_names_the_command_that_leaves_the_rows_out(leaking):
    """Of two rows in different splits, that of train is left out."""
    assert "`tuneline data drop --check leakage --from train`" in leaking[1].hint


def test_bad_data_removes_the_outs_of_an_earlier_run(leaking):
    """Training depends on them: an old file would let it start."""
    folder, _ = leaking
    assert not (folder / "metrics/validate.json").exists()
    assert not (folder / "reports/checks/passed").exists()


def test_promoted_profile_is_compared_if_it_exists(valid_project):
    assert (
        "promoted_rows" in json.loads((valid_project / "reports/checks/checks.json").read_text())["not_run"]
    )
    REFERENCE_PROFILE.parent.mkdir(parents=True)
    shutil.copy("reports/checks/profile.json", REFERENCE_PROFILE)
    main()
    assert json.loads((valid_project / "reports/checks/checks.json").read_text())["not_run"] == []
    assert json.loads((valid_project / "metrics/validate.json").read_text())["train_promoted_label_psi"] == 0


def divide(folder: Path, rows: int) -> None:
    """Divide the splits in a folder into files of ``rows`` rows."""
    for split in SPLITS:
        single = split_file(folder, split)
        table = pq.read_table(single)
        single.unlink()
        count = -(-len(table) // rows)
        for number in range(count):
            write_table(table.slice(number * rows, rows), shard_file(folder, split, number, count))


def outs() -> dict[str, bytes]:
    """Return the outs except ``checks.json``, which has a hash of the files of a split."""
    paths = [
        path for folder in ("reports/checks", "metrics") for path in Path(folder).rglob("*") if path.is_file()
    ]
    return {str(path): path.read_bytes() for path in paths if path.name != "checks.json"}


def test_split_of_many_files_has_the_report_of_one_file(leaking, project):
    shutil.copytree(leaking[0], project, dirs_exist_ok=True)
    expected = outs()
    for folder in ("data/raw", "data/tokenized"):
        divide(project / folder, 50)
    with pytest.raises(GateError):
        main()
    assert outs() == expected
    assert not list(project.glob("reports/.*")), "what was derived is removed, also after an error"
    damaged = project / "data/tokenized/train-00002-of-00004.parquet"
    damaged.write_bytes(damaged.read_bytes()[:-9])
    with pytest.raises(DataError, match="train-00002-of-00004"):
        main()


@pytest.mark.slow
def test_engine_does_not_change_the_report(leaking_project):
    for folder in ("data/raw", "data/tokenized"):
        divide(leaking_project / folder, 50)
    with pytest.raises(GateError):
        main()
    expected = outs() | {"checks.json": Path("reports/checks/checks.json").read_bytes()}
    params = YAML().load(leaking_project / "params.yaml")
    params["run"] |= {"engine": "ray", "workers": 2}
    YAML().dump(params, leaking_project / "params.yaml")
    with pytest.raises(GateError):
        main()
    assert outs() | {"checks.json": Path("reports/checks/checks.json").read_bytes()} == expected


def test_rows_of_a_group_are_a_cluster(valid_project):
    rows = pq.read_metadata(valid_project / "data/raw/test.parquet").num_rows
    groups = valid_project / "reports/download/groups"
    groups.mkdir(parents=True)
    write_numbers(groups / "test.parquet", GROUP_COLUMN, np.arange(rows, dtype=np.int32) // 10)
    main()
    clusters = pq.read_table(valid_project / "reports/checks/clusters/test.parquet")["cluster"].to_numpy()
    assert all(len(set(clusters[start : start + 10])) == 1 for start in range(0, rows, 10))
    alone = pq.read_table(valid_project / "reports/checks/clusters/train.parquet")["cluster"].to_numpy()
    assert len(set(alone)) > 0.9 * len(alone)


PHONE_NUMBERS = "project/checks.py:no_phone_numbers"


@pytest.fixture
def phone_project(project):
    """Return a project with a check of the user, which two rows of train and one of validation violate."""
    data = good_data()
    for split, row in (("train", 3), ("train", 70), ("validation", 5)):
        data.raw[split]["two"][row] += " 555 123 4567"
    data.tokenize()
    data.set_params(lambda values: values["validate"].update(own=[PHONE_NUMBERS], unknown_rate=1.0))
    write_project(data, project)
    write_functions(project)
    return project


def own_entries() -> list[dict]:
    entries = json.loads(Path("reports/checks/checks.json").read_text())["checks"]
    return [entry for entry in entries if entry["check"] == "no_phone_numbers"]


def test_check_of_the_user_stops_the_pipeline_and_is_reported_as_any_check(phone_project):
    with pytest.raises(GateError) as failed:
        main()
    assert "no_phone_numbers, train: 2 of 200 rows (1 %); allowed: no row." in str(failed.value)
    assert "`tuneline data drop --check no_phone_numbers`" in failed.value.hint
    assert not Path("reports/checks/passed").exists()

    entries = own_entries()
    assert [(entry["split"], entry["status"], entry["failing"]) for entry in entries] == [
        ("train", "failed", 2),
        ("validation", "failed", 1),
        ("test", "passed", 0),
    ]
    assert {entry["expectation"]["type"] for entry in entries} == {"expect_column_values_to_be_in_set"}
    assert [row["number"] for row in entries[0]["examples"]] == [3, 70]
    assert entries[0]["examples"][0]["reason"] == "no phone numbers false"
    page = Path("reports/checks/index.html").read_text(encoding="utf-8")
    assert "no_phone_numbers, train" in page
    assert "Texts have no phone numbers." in page
    rows = pq.read_table("reports/checks/rows/no_phone_numbers.parquet").to_pydict()
    assert list(zip(rows["split"], rows["row"], strict=True)) == [
        ("train", 3),
        ("train", 70),
        ("validation", 5),
    ]


def test_check_of_the_user_has_a_severity_and_a_limit(phone_project, capsys):
    change_params(phone_project, {"validate.severity": {"no_phone_numbers": "warning"}})
    main()
    assert "warning: no_phone_numbers, train: 2 of 200 rows" in capsys.readouterr().out
    change_params(phone_project, {"validate.severity": {}, "validate.own": {PHONE_NUMBERS: 0.01}})
    main()
    assert {entry["status"] for entry in own_entries()} == {"passed"}
    assert {entry["allowed"] for entry in own_entries()} == {"at most 1 %, or 1 row"}


def test_check_of_the_user_that_fails_is_an_error_with_parameter_function_and_split(phone_project):
    code = "def no_phone_numbers(texts, labels): return texts['three'] == ''\n"
    write_functions(phone_project, {"project/checks.py": code})
    with pytest.raises(ParamsError, match=rf"validate\.own: {PHONE_NUMBERS} fails for train: KeyError"):
        main()
