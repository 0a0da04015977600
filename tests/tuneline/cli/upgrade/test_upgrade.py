"""``tuneline upgrade`` in a repository of the oldest supported version, with ``params-oldest.yaml``."""

import subprocess
from pathlib import Path

import pytest
from typer.testing import CliRunner

from tests.params import write_params
from tests.project import GIT_IDENTITY
from tuneline.cli import app
from tuneline.cli.upgrade import MIGRATIONS
from tuneline.core.yaml_files import read_yaml
from tuneline.params.loading import default_values, known_keys, load_params, missing_keys
from tuneline.runtime.errors import ParamsError
from tuneline.settings import load_settings

OLDEST = Path(__file__).with_name("params-oldest.yaml")
OF_THE_USER = {
    "seed: 42": "seed: 7  # ours",
    "drop_incomplete: false": "drop_incomplete: true",
    "trackers: [dvclive] ": "trackers: [tensorboard]  ",
    "keep_checkpoints: 2": "keep_checkpoints: 5",
    "learning_rate: 7.0e-4": "learning_rate: 3e-4",
    "duplicates: {severity: warning, max: 0.05}": "duplicates: {severity: error, max: 0.07}",
    "label_names: null": "label_names: [billing, 'delivery']",
}


@pytest.fixture
def folder(tmp_path, monkeypatch) -> Path:
    """A repository of the oldest supported version, with values of the user."""
    monkeypatch.chdir(tmp_path)
    text = OLDEST.read_text()
    for before, after in OF_THE_USER.items():
        assert before in text
        text = text.replace(before, after)
    (tmp_path / "params.yaml").write_text(text)
    return tmp_path


def upgrade(*options: str, **how):
    return CliRunner().invoke(app, ["upgrade", *options], **how)


def values_of(section: dict, prefix: str = "") -> dict:
    """Return the values of a file by dotted key."""
    found = {}
    for key, value in section.items():
        inner = isinstance(value, dict) and f"{prefix}{key}" not in ("model.config", "train.schedule_options")
        found |= values_of(value, f"{prefix}{key}.") if inner else {f"{prefix}{key}": value}
    return found


def test_oldest_parameters_load_with_every_value_of_the_user(folder):
    before = values_of(read_yaml(folder / "params.yaml"))
    done = upgrade("--yes")
    assert done.exit_code == 0, done.output
    after = values_of(read_yaml(folder / "params.yaml"))
    load_params()
    replaced = set(MIGRATIONS) | {
        "validate.near_duplicates.similarity",
        "validate.near_duplicates.max",
    }
    assert {key: after[key] for key in before.keys() - replaced} == {
        key: before[key] for key in before.keys() - replaced
    }
    moved = {
        key: f"run.{key.removeprefix('train.')}"
        for key in before
        if f"run.{key.removeprefix('train.')}" in after
    }
    assert len(moved) == 5
    assert {new: after[new] for new in moved.values()} == {new: before[old] for old, new in moved.items()}


def test_replaced_keys_keep_their_meaning(folder):
    upgrade("--yes")
    params = load_params()
    assert (params.data.bad_rows, params.data.max_bad_share) == (
        "skip",
        1.0,
    ), "what drop_incomplete: true did"
    assert (
        params.validate_.near_duplicates.similarity
        == default_values()["validate"]["near_duplicates"]["similarity"]
    )


def test_comments_stay(folder):
    before = {
        line.partition("#")[2] for line in (folder / "params.yaml").read_text().splitlines() if "#" in line
    }
    upgrade("--yes")
    after = {
        line.partition("#")[2] for line in (folder / "params.yaml").read_text().splitlines() if "#" in line
    }
    assert before == after


def test_new_keys_are_where_the_defaults_have_them(folder):
    upgrade("--yes")
    keys = [
        key
        for key in read_yaml(folder / "params.yaml")["data"]
        if key not in ("text_columns", "label_column")
    ]
    assert keys.index("bad_rows") == keys.index("shard_rows") + 1
    assert list(read_yaml(folder / "params.yaml")) == [key for key in known_keys() if "." not in key]


def test_second_upgrade_changes_nothing(folder):
    upgrade("--yes")
    before = (folder / "params.yaml").read_bytes()
    done = upgrade()
    assert done.exit_code == 0, done.output
    assert (folder / "params.yaml").read_bytes() == before


def test_current_file_of_hydra_is_not_rewritten(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write_params(tmp_path)
    before = (tmp_path / "params.yaml").read_bytes()
    assert upgrade().exit_code == 0
    assert (tmp_path / "params.yaml").read_bytes() == before


def test_diff_is_shown_and_nothing_is_written_without_consent(folder):
    before = (folder / "params.yaml").read_bytes()
    done = upgrade()
    assert done.exit_code == 1
    assert "-  drop_incomplete: true" in done.output
    assert "+  bad_rows: skip" in done.output
    assert (folder / "params.yaml").read_bytes() == before


def test_task_gets_only_the_new_names_of_its_keys(folder):
    (folder / "conf/task").mkdir(parents=True)
    task = folder / "conf/task/mine.yaml"
    task.write_text(
        "# @package _global_\ndata: {drop_incomplete: false}\ntrain:\n  keep_checkpoints: 3 # disk\n "
        " epochs: 2\n"
    )
    upgrade("--yes")
    assert "keep_checkpoints: 3 # disk\n" in task.read_text()
    assert read_yaml(task) == {
        "data": {"bad_rows": "stop"}, "train": {"epochs": 2}, "run": {"keep_checkpoints": 3}
    }  # fmt: skip


def test_own_defaults_of_a_team_are_completed(folder):
    (folder / "conf").mkdir()
    (folder / "conf/base.yaml").write_text("seed: 3\ntrain: {epochs: 9}\n")
    upgrade("--yes")
    values = read_yaml(folder / "conf/base.yaml")
    assert (values["seed"], values["train"]["epochs"]) == (3, 9)
    assert list(missing_keys(values)) == ["data.text_columns", "data.label_column"], "each task sets them"


def test_settings_of_an_earlier_version_are_removed_and_the_others_stay(folder):
    settings = folder / "conf" / "flows.yaml"
    settings.parent.mkdir()
    settings.write_text(
        "promotion:\n  min_gain: 0.1  # ours\n"
        "  take_over: pull_request\n  push_options: [merge_request.create]\n"
    )
    with pytest.raises(ParamsError, match=r"push_options") as refused:
        load_settings(folder)
    assert "tuneline upgrade" in refused.value.hint
    done = upgrade("--yes")
    assert done.exit_code == 0, done.output
    assert settings.read_text() == "promotion:\n  min_gain: 0.1  # ours\n  take_over: none\n"
    assert load_settings(folder).promotion.min_gain == 0.1


def test_values_that_contradict_each_other_are_named_after_the_upgrade(folder):
    text = (folder / "params.yaml").read_text().replace("split: test ", "split: validation ")
    (folder / "params.yaml").write_text(text)
    done = upgrade("--yes")
    assert done.exit_code == 1
    assert "train.keep" in done.output
    assert "run" in read_yaml(folder / "params.yaml")


def git(folder: Path, *arguments: str, check: bool = True) -> str:
    env = {**GIT_IDENTITY, "PATH": "/usr/bin:/bin:/usr/local/bin", "HOME": str(folder)}
    return subprocess.run(
        ["git", *arguments], cwd=folder, env=env, check=check, capture_output=True, text=True
    ).stdout


def test_conflicts_of_a_merge_in_files_of_the_user_are_resolved_to_the_user_version(folder):
    git(folder, "init", "--quiet", "--initial-branch=main")
    (folder / "dvc.lock").write_text("stages: {train: {outs: [{md5: aaa}]}}\n")
    ours = {name: (folder / name).read_text() for name in ("params.yaml", "dvc.lock")}
    (folder / "params.yaml").write_text(OLDEST.read_text())
    git(folder, "add", "--all")
    git(folder, "commit", "--quiet", "--message=oldest")
    git(folder, "checkout", "--quiet", "-b", "upstream")
    write_params(folder)
    (folder / "dvc.lock").write_text("stages: {train: {outs: [{md5: bbb}]}}\n")
    git(folder, "commit", "--quiet", "--all", "--message=today")
    git(folder, "checkout", "--quiet", "main")
    for name, text in ours.items():
        (folder / name).write_text(text.replace("aaa", "ccc"))
    git(folder, "commit", "--quiet", "--all", "--message=ours")
    git(folder, "merge", "upstream", check=False)
    assert "<<<<<<<" in (folder / "params.yaml").read_text()

    done = upgrade("--yes")

    assert done.exit_code == 0, done.output
    assert (folder / "dvc.lock").read_text() == ours["dvc.lock"].replace("aaa", "ccc")
    params = load_params()
    assert (params.seed, params.data.label_names, params.run.keep_checkpoints) == (
        7,
        ["billing", "delivery"],
        5,
    )
    git(folder, "commit", "--all", "--no-edit")
