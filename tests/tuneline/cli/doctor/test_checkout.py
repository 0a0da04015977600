import json
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest
from ruamel.yaml import YAML
from typer.testing import CliRunner

from tests.faults.disks import NAMESPACE
from tests.params import change_params
from tests.tuneline.finished_project import FinishedProject
from tuneline.cli import app
from tuneline.cli import doctor as checks
from tuneline.core.base_source import BaseSource, PretrainedSource
from tuneline.core.launch import launch_file
from tuneline.core.written_records import write_record
from tuneline.params.loading import load_params
from tuneline.repository.dvc import cached_objects, read_lock
from tuneline.repository.site_cache import make_private


def set_data(folder, **values):
    yaml = YAML()
    params = yaml.load(folder / "params.yaml")
    params["data"].update(values)
    yaml.dump(params, folder / "params.yaml")
    return load_params(folder / "params.yaml")


def test_folder_without_dvc_yaml_is_an_error(tmp_path):
    (result,) = checks.check_checkout(tmp_path)
    assert result.level == "error"
    assert "is not a checkout of Tuneline" in result.message


def test_invalid_parameters_are_named_by_key(checkout):
    text = (checkout / "params.yaml").read_text()
    (checkout / "params.yaml").write_text(text.replace("max_length: 128", "max_lenght: 128"))
    assert any(
        result.level == "error" and "tokenize.max_lenght: unknown key" in result.message
        for result in checks.check_checkout(checkout)
    )


def test_missing_launch_configuration_is_an_error_with_the_available_ones(checkout):
    params = load_params(checkout / "params.yaml")
    assert checks.check_launch_of_machine(checkout, params.train).level == "ok"
    (checkout / launch_file(params.train.launch)).rename(checkout / "conf/accelerate/other.yaml")
    result = checks.check_launch_of_machine(checkout, params.train)
    assert result.level == "error"
    assert "other" in result.hint


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (os.mkfifo, "train.csv is a named pipe, not a file: DVC waits for it without end"),
        (
            lambda path: path.symlink_to("gone.csv"),
            "train.csv is a link to gone.csv, which does not exist: DVC cannot hash it",
        ),
        (lambda path: path.symlink_to(path), "train.csv is a link that leads to itself: DVC cannot hash it"),
    ],
)
def test_what_dvc_cannot_hash_is_named(make, message, checkout):
    folder = checkout / "data/source/mine"
    folder.mkdir(parents=True)
    (folder / "link").symlink_to(".")  # a folder in itself
    assert checks.check_special_files(checkout).level == "ok"
    make(folder / "train.csv")
    result = checks.check_special_files(checkout)
    assert (result.level, result.message) == ("error", f"data/source/mine/{message}")


def test_corrections_are_there_valid_and_committed(checkout):
    assert checks.check_corrections(checkout).level == "ok"
    dropped = checkout / "data/corrections/dropped.csv"
    dropped.write_text(f"key,split,rows,reason\n{'a' * 32},train,all,leakage\n")
    result = checks.check_corrections(checkout)
    assert (result.level, result.message[:46]) == (
        "warning",
        "data/corrections/dropped.csv is not committed:",
    )
    subprocess.run(["git", "add", "."], cwd=checkout, check=True)
    subprocess.run(["git", "commit", "--quiet", "-m", "Drop"], cwd=checkout, check=True)
    assert checks.check_corrections(checkout).message == "data/corrections: 0 labels, 1 dropped rows"
    dropped.write_text("<<<<<<< HEAD\n" + dropped.read_text())
    assert checks.check_corrections(checkout).level == "error"
    shutil.rmtree(checkout / "data/corrections")
    assert checks.check_corrections(checkout).hint == "git checkout data/corrections"


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
def test_missing_source_files_of_a_split_are_an_error(checkout, files, splits, missing):
    folder = checkout / "data/source/mine"
    folder.mkdir(parents=True)
    for name in files:
        (folder / name).touch()
    params = set_data(
        checkout,
        source="files",
        path="mine",
        splits={"train": "train", "validation": "validation", "test": "test", **splits},
    )
    result = checks.check_source(checkout, params)
    assert result.level == ("error" if missing else "ok")
    assert missing is None or f"has no file for {missing}" in result.message


def test_hub_source_in_offline_mode_is_a_warning(checkout, monkeypatch):
    params = set_data(checkout, source="hub", path="nyu-mll/glue")
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    assert checks.check_source(checkout, params).level == "warning"
    monkeypatch.setenv("HF_HUB_OFFLINE", "0")
    assert checks.check_source(checkout, params).level == "ok"


def set_checkpoint(folder, name):
    change_params(folder, {"model.checkpoint": name, "model.config": None})
    return load_params(folder / "params.yaml")


def test_missing_folder_of_the_checkpoint_is_an_error(checkout):
    params = set_checkpoint(checkout, "models/source/mine")
    result = checks.check_base_model(checkout, params)
    assert result.level == "error"
    assert "dvc pull models/source/mine" in result.hint
    (checkout / "models/source/mine").mkdir(parents=True)
    (checkout / "models/source/mine/config.json").touch()
    assert checks.check_base_model(checkout, params).level == "ok"


def test_checkpoint_of_the_hub_in_offline_mode_is_a_warning_until_it_is_in_the_project(checkout, monkeypatch):
    params = set_checkpoint(checkout, "someone/bert")
    monkeypatch.setenv("HF_HUB_OFFLINE", "0")
    assert checks.check_base_model(checkout, params).level == "ok"
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    assert checks.check_base_model(checkout, params).level == "warning"
    source = PretrainedSource(name="someone/bert", commit="c" * 40, license=None, sha256={})
    write_record(checkout / "models/base/source.json", BaseSource(checkpoint=source, tokenizer=source))
    assert checks.check_base_model(checkout, params).level == "ok"


def test_partial_files_of_a_killed_run_are_named(checkout):
    assert checks.check_partial_files(checkout).level == "ok"
    (checkout / "models/.onnx.partial").mkdir(parents=True)
    result = checks.check_partial_files(checkout)
    assert result.level == "warning"
    assert "models/.onnx.partial" in result.message


def test_partial_copies_in_the_cache_of_dvc_are_named(checkout):
    folder = checkout / ".dvc/cache/files/md5/e0"
    folder.mkdir(parents=True)
    (folder / "408fa4509dce2d3375cee15eddc1dc").write_bytes(bytes(5000))
    assert checks.check_partial_copies(checkout).level == "ok"
    (folder / ".7BFt_uUIuDX6JB3Py59NIg.tmp").write_bytes(bytes(2000))
    result = checks.check_partial_copies(checkout)
    assert result.level == "warning"
    assert "1 partial copies in DVC's cache take 2.0 kB" in result.message


@pytest.mark.parametrize("content", [pytest.param("", marks=pytest.mark.slow), "schema: '2.0'\nstag"])
def test_damaged_dvc_lock_is_an_error_that_says_how_to_get_it_back(checkout, content):
    subprocess.run([sys.executable, "-m", "dvc", "init", "--quiet"], cwd=checkout, check=True)
    (checkout / "dvc.lock").write_text(content)
    result = checks.check_pipeline(checkout)
    assert result.level == "error"
    assert "dvc.lock is damaged" in result.message
    assert "git checkout dvc.lock" in result.hint


def levels(results):
    return [result.level for result in results]


def test_folder_without_git_repository_is_an_error(tmp_path, monkeypatch):
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(tmp_path.parent))
    assert levels(checks.check_git(tmp_path)) == ["error"]


def test_git_with_a_committer_identity_is_ok(checkout):
    assert levels(checks.check_git(checkout)) == ["ok"]


def test_shallow_clone_is_a_warning(checkout, tmp_path_factory):
    """In CI, fetch-depth 1 leaves no commit to compare with."""
    for message in ("one", "two"):
        subprocess.run(["git", "commit", "--quiet", "--allow-empty", "-m", message], cwd=checkout, check=True)
    clone = tmp_path_factory.mktemp("shallow") / "clone"
    subprocess.run(["git", "clone", "--quiet", "--depth", "1", f"file://{checkout}", str(clone)], check=True)
    assert levels(checks.check_git(clone)) == ["warning", "ok"]


@pytest.fixture(scope="module")
def pipeline(tmp_path_factory, homes):
    """A DVC repository with one stage that has run."""
    folder = tmp_path_factory.mktemp("pipeline")
    dvc = [sys.executable, "-m", "dvc"]
    subprocess.run(["git", "init", "--quiet"], cwd=folder, check=True)
    subprocess.run([*dvc, "init", "--quiet"], cwd=folder, check=True)
    (folder / "a.txt").write_text("one\n")
    (folder / "dvc.yaml").write_text(
        "stages:\n  copy:\n    cmd: cp a.txt b.txt\n    deps: [a.txt]\n    outs: [b.txt]\n"
    )
    subprocess.run([*dvc, "repro", "--quiet"], cwd=folder, check=True)
    return folder


def test_pipeline_is_up_to_date_until_an_input_changes(pipeline):
    assert checks.check_pipeline(pipeline).level == "ok"
    (pipeline / "a.txt").write_text("two\n")
    result = checks.check_pipeline(pipeline)
    assert (result.level, result.message) == ("warning", "not up to date: copy")
    (pipeline / "a.txt").write_text("one\n")  # for the other tests


def test_lock_of_a_running_dvc_is_a_warning(pipeline):
    """The lock that a running `dvc repro` holds must not be reported as a broken repository."""
    holder = subprocess.Popen(
        [
            sys.executable,
            "-c",
            (
                "import zc.lockfile, sys; held = zc.lockfile.LockFile('.dvc/tmp/lock'); print(1, flush=True);"
                " sys.stdin.read()"
            ),
        ],
        cwd=pipeline,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    try:
        assert holder.stdout.readline() == b"1\n"
        result = checks.check_pipeline(pipeline)
    finally:
        holder.communicate()
    assert result.level == "warning"
    assert f"DVC is locked: process {holder.pid} ({sys.executable}" in result.message
    assert "holds .dvc/tmp/lock" in result.message
    assert f"kill {holder.pid}" in result.hint


def test_lock_of_a_killed_dvc_whose_number_another_process_has_is_an_error(pipeline):
    """In a container, the process of a restarted one soon has the number of a killed ``dvc repro``."""
    owner = {"pid": os.getpid(), "cmd": "/usr/bin/dvc repro"}
    path = pipeline / ".dvc/tmp/rwlock"
    path.write_text(json.dumps({"write": {str(pipeline / "b.txt"): owner}, "read": {}}))
    result = checks.check_pipeline(pipeline)
    assert result.level == "error"
    assert (
        f".dvc/tmp/rwlock names process {os.getpid()} (/usr/bin/dvc repro), but that is now" in result.message
    )
    now = Path(f"/proc/{os.getpid()}/cmdline").read_bytes().split(b"\0")[0].decode()
    assert result.message.partition("but that is now")[2].strip().startswith(now[:40])
    command = result.hint.rpartition(": ")[2]
    assert command == "rm .dvc/tmp/rwlock"
    subprocess.run(command.split(), cwd=pipeline, check=True)
    assert "locked" not in checks.check_pipeline(pipeline).message


@pytest.mark.parametrize("content", [b"", pytest.param(b'{"write": {"/project/b.t', marks=pytest.mark.slow)])
def test_damaged_rwlock_is_an_error_with_the_command_that_repairs_it(pipeline, content):
    (pipeline / ".dvc/tmp/rwlock").write_bytes(content)
    result = checks.check_pipeline(pipeline)
    assert result.level == "error"
    assert ".dvc/tmp/rwlock is damaged" in result.message
    command = result.hint.rpartition(": ")[2]
    assert command == "rm .dvc/tmp/rwlock"
    subprocess.run(command.split(), cwd=pipeline, check=True)
    assert checks.check_pipeline(pipeline).level != "error"


def test_checkout_that_cannot_be_written_is_an_error(pipeline):
    script = 'mount --bind "$0" "$0" && mount -o remount,bind,ro "$0" && cd "$0" && exec "$@"'
    code = (
        "from pathlib import Path; from tuneline.cli.doctor import check_pipeline;"
        " print(check_pipeline(Path()))"
    )
    command = [*NAMESPACE, script, str(pipeline), sys.executable, "-c", code]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if "mount" in done.stderr or "unshare" in done.stderr:
        pytest.skip("this system does not allow a user to mount a file system")
    assert "level='error'" in done.stdout, done.stderr
    assert "Read-only file system" in done.stdout


def test_checkout_without_dvc_folder_is_an_error(checkout):
    *_, last = checks.check_checkout(checkout)
    assert (last.level, last.message) == ("error", "the folder .dvc is missing")
    assert Path(".dvc").exists() is False


@pytest.mark.parametrize(
    ("modes", "level"),
    [
        ([], "warning"),
        ([0o755], "warning"),
        ([0o777], "warning"),
        ([0o700], "ok"),
        ([0o750], "ok"),
        ([0o700, 0o777], "ok"),
    ],
)
def test_site_cache_that_other_users_may_write_is_a_warning(checkout, monkeypatch, modes, level):
    """DVC itself makes what is missing writable for everyone."""
    (checkout / ".dvc").mkdir()
    with tempfile.TemporaryDirectory() as folder:
        site = Path(folder)
        site.chmod(0o755)
        for number, mode in enumerate(modes):
            site = site / str(number)
            site.mkdir()
            site.chmod(mode)
        monkeypatch.setenv("DVC_SITE_CACHE_DIR", str(site if modes else site / "missing"))
        assert checks.check_site_cache(checkout).level == level


def test_default_site_cache_is_a_warning(checkout, monkeypatch):
    monkeypatch.delenv("DVC_SITE_CACHE_DIR")
    (checkout / ".dvc").mkdir()
    result = checks.check_site_cache(checkout)
    assert result.level == "warning"
    assert "make setup" in result.hint
    monkeypatch.chdir(checkout)
    make_private(checkout)  # what the hint runs without make
    assert checks.check_site_cache(checkout).level == "ok"


@pytest.mark.parametrize("damaged", ["reports/predictions.parquet", "data/raw", "data/raw/test.parquet"])
def test_changed_object_of_the_cache_is_found_and_named(tmp_path, monkeypatch, damaged):
    """DVC trusts its cache: it says that everything is up to date, and a checkout brings the damage into the
    project."""
    project = FinishedProject(tmp_path).run_pipeline()
    project.commit()
    monkeypatch.chdir(tmp_path)
    assert [result.level for result in checks.check_cache(tmp_path)] == ["ok"]
    stored = dict(cached_objects(tmp_path, read_lock(tmp_path)))[damaged]
    stored.write_bytes(stored.read_bytes()[:-1] + b"?")
    (result,) = checks.check_cache(tmp_path)
    assert (result.level, damaged in result.message, str(stored) in result.hint) == ("error", True, True)
    assert "DVC's cache is damaged" in CliRunner().invoke(app, ["doctor", "--data"]).stdout


def test_files_that_a_commit_would_lack_are_named_with_the_command(checkout):
    subprocess.run(["git", "add", "--all"], cwd=checkout, check=True)
    assert checks.check_committed(checkout).level == "ok"
    (checkout / "data/source").mkdir()
    (checkout / "data/source/mine.dvc").write_text("outs: []\n")
    result = checks.check_committed(checkout)
    assert result.level == "warning"
    assert "git does not have data/source/mine.dvc" in result.message
    assert result.hint.startswith(
        "git add params.yaml dvc.lock metrics conf data models project && git commit"
    )
    subprocess.run(["git", "add", "data"], cwd=checkout, check=True)
    assert checks.check_committed(checkout).level == "ok"
