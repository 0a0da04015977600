import subprocess
import sys

import pytest

from flows.runs.processes import for_stages
from flows.settings import Retention, Settings, load_settings
from stages.train.launch import child_command
from tuneline.core.errors import ParamsError


def test_projects_own_settings_are_valid(root):
    assert load_settings(root).max_attempts >= 1


def test_projects_retention_is_the_default(root):
    assert load_settings(root).retention == Retention()


def test_missing_settings_file_gives_defaults(tmp_path):
    assert load_settings(tmp_path) == Settings()


def test_default_folders_of_scoring_are_ignored_by_git(root):
    scoring = Settings().scoring
    for folder in (scoring.inbox, scoring.outbox, scoring.archive):
        assert (
            subprocess.run(
                ["git", "check-ignore", "--quiet", folder / "tickets.csv"], cwd=root, check=False
            ).returncode
            == 0
        )


def test_unknown_key_error_names_the_key(tmp_path):
    (tmp_path / "conf").mkdir()
    (tmp_path / "conf" / "flows.yaml").write_text("stages: {train: {retrys: 3}}\n")
    with pytest.raises(ParamsError, match=r"stages\.train\.retrys"):
        load_settings(tmp_path)


def test_conflict_of_a_merge_is_named_with_its_line_and_how_to_find_its_commit(tmp_path):
    (tmp_path / "conf").mkdir()
    (tmp_path / "conf" / "flows.yaml").write_text(
        "max_attempts: 2\n<<<<<<< HEAD\na: 1\n=======\na: 2\n>>>>>>> other\n"
    )
    with pytest.raises(
        ParamsError,
        match=(
            r"flows\.yaml, line 2: a merge left a conflict\.\n  `git log -1 -- conf/flows\.yaml` names its "
        ),
    ):
        load_settings(tmp_path)


@pytest.mark.parametrize(
    "folders", [{"archive": "data/inbox/"}, {"outbox": "./data/inbox"}, {"inbox": "data/x/../archive"}]
)
def test_folders_of_scoring_must_differ(folders):
    assert Settings.model_validate({"scoring": {"archive": None}}).scoring.archive is None
    with pytest.raises(ValueError, match="different folders"):
        Settings.model_validate({"scoring": folders})


def test_last_retry_delay_repeats():
    settings = Settings.model_validate({"stages": {"default": {"retries": 3, "retry_delay_seconds": [1, 5]}}})
    assert settings.policy("any").delays == [1, 5, 5]


def test_more_delays_than_retries_is_an_error():
    with pytest.raises(ValueError, match="more delays than retries"):
        Settings.model_validate({"stages": {"train": {"retries": 1, "retry_delay_seconds": [1, 5]}}})


def test_command_of_the_training_reaches_its_stage_word_by_word():
    environment = Settings.model_validate(
        {"training": {"command": ["srun", "--comment=my run"]}}
    ).training.environment
    command, _ = child_command([], for_stages(environment))
    assert command[:3] == ["srun", "--comment=my run", sys.executable]
    assert Settings().training.environment == {}
