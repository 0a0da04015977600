import subprocess
import sys
from pathlib import Path

import pytest
from ruamel.yaml import YAML

from tuneline.cli.doctor import checkout as looking
from tuneline.params.loading import load_params

# The whole of doctor looks at the disk, the packages and DVC; these tests look at one thing each.


def set_data(folder, **values):
    yaml = YAML()
    params = yaml.load(folder / "params.yaml")
    params["data"].update(values)
    yaml.dump(params, folder / "params.yaml")
    return load_params(folder / "params.yaml")


def test_another_folder_is_no_checkout(tmp_path):
    (found,) = looking.look(tmp_path)
    assert found.level == "error"
    assert "is no checkout of Tuneline" in found.what


def test_faulty_parameters_are_shown_with_their_keys(checkout):
    text = (checkout / "params.yaml").read_text()
    (checkout / "params.yaml").write_text(text.replace("max_length: 128", "max_lenght: 128"))
    assert any(found.level == "error" and "tokenize.max_lenght: unknown key" in found.what for found in looking.look(checkout))


def test_a_launch_configuration_that_is_not_there_is_an_error(checkout):
    params = load_params(checkout / "params.yaml")
    assert looking.launch_file(checkout, params).level == "ok"
    (checkout / "conf/accelerate/cpu.yaml").rename(checkout / "conf/accelerate/other.yaml")
    found = looking.launch_file(checkout, params)
    assert found.level == "error"
    assert "other" in found.hint


@pytest.mark.parametrize(
    ("files", "splits", "missing"),
    [
        (["train.csv", "validation.csv", "test.csv"], {}, None),
        (["train.jsonl.gz", "validation.tsv", "test.parquet"], {}, None),
        (["train.csv", "test.csv"], {}, "validation"),
        (["train.csv.dvc", "validation.csv", "test.csv"], {}, "train"),
        (["train.csv", "test.csv"], {"train": "train[:90%]", "validation": "train[90%:]"}, None),
        ([], {}, "test and train and validation"),
    ],
)
def test_source_files_that_the_splits_want_are_looked_for(checkout, files, splits, missing):
    folder = checkout / "data/source/mine"
    folder.mkdir(parents=True)
    for name in files:
        (folder / name).touch()
    params = set_data(
        checkout, source="files", path="mine", splits={"train": "train", "validation": "validation", "test": "test", **splits}
    )
    found = looking.source(checkout, params)
    assert found.level == ("error" if missing else "ok")
    assert missing is None or f"no file of {missing} in" in found.what


def test_a_hub_source_offline_is_a_warning(checkout, monkeypatch):
    params = set_data(checkout, source="hub", path="nyu-mll/glue")
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    assert looking.source(checkout, params).level == "warning"
    monkeypatch.setenv("HF_HUB_OFFLINE", "0")
    assert looking.source(checkout, params).level == "ok"


def test_what_a_killed_run_left_is_named(checkout):
    assert looking.leftovers(checkout).level == "ok"
    (checkout / "models/.onnx.partial").mkdir(parents=True)
    found = looking.leftovers(checkout)
    assert found.level == "warning"
    assert "models/.onnx.partial" in found.what


def levels(findings):
    return [found.level for found in findings]


def test_a_folder_without_git_is_an_error(tmp_path, monkeypatch):
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(tmp_path.parent))
    assert levels(looking.git(tmp_path)) == ["error"]


def test_git_that_knows_who_one_is_is_fine(checkout):
    assert levels(looking.git(checkout)) == ["ok"]


def test_a_shallow_clone_is_a_warning(checkout, tmp_path_factory):
    """In CI, fetch-depth 1 leaves nothing to compare with."""
    for message in ("one", "two"):
        subprocess.run(["git", "commit", "--quiet", "--allow-empty", "-m", message], cwd=checkout, check=True)
    clone = tmp_path_factory.mktemp("shallow") / "clone"
    subprocess.run(["git", "clone", "--quiet", "--depth", "1", f"file://{checkout}", str(clone)], check=True)
    assert levels(looking.git(clone)) == ["warning", "ok"]


@pytest.fixture(scope="module")
def pipeline(tmp_path_factory, homes):
    """A DVC repository with one stage, whose line ran."""
    folder = tmp_path_factory.mktemp("pipeline")
    dvc = [sys.executable, "-m", "dvc"]
    subprocess.run(["git", "init", "--quiet"], cwd=folder, check=True)
    subprocess.run([*dvc, "init", "--quiet"], cwd=folder, check=True)
    (folder / "a.txt").write_text("one\n")
    (folder / "dvc.yaml").write_text("stages:\n  copy:\n    cmd: cp a.txt b.txt\n    deps: [a.txt]\n    outs: [b.txt]\n")
    subprocess.run([*dvc, "repro", "--quiet"], cwd=folder, check=True)
    return folder


def test_a_line_that_ran_is_up_to_date_until_an_input_changes(pipeline):
    assert looking.line(pipeline).level == "ok"
    (pipeline / "a.txt").write_text("two\n")
    found = looking.line(pipeline)
    assert (found.level, found.what) == ("warning", "not up to date: copy")


def test_dvc_at_work_is_said_to_be_just_that(pipeline):
    """The lock that a running `dvc repro` holds must not look like a broken repository."""
    holder = subprocess.Popen(
        [
            sys.executable,
            "-c",
            "import zc.lockfile, sys; held = zc.lockfile.LockFile('.dvc/tmp/lock'); print(1, flush=True); sys.stdin.read()",
        ],
        cwd=pipeline,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    try:
        assert holder.stdout.readline() == b"1\n"
        found = looking.line(pipeline)
    finally:
        holder.communicate()
    assert found.level == "warning"
    assert "DVC is at work" in found.what


def test_a_checkout_without_dvc_is_an_error(checkout):
    assert looking.line(checkout).level == "error"
    assert Path(".dvc").exists() is False
