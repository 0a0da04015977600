import subprocess

import pytest

from tuneline.core.runtime.errors import ParamsError
from tuneline.core.settings import Settings, load_settings


def test_settings_in_conf_are_the_defaults_with_a_policy_for_slow_stages(root):
    settings = load_settings(root)
    assert settings.stages.keys() == {"default", "base", "download", "train"}
    assert settings.model_copy(update={"stages": {}}) == Settings()


def test_default_folders_of_scoring_are_ignored_by_git(root):
    scoring = Settings().scoring
    for folder in (scoring.inbox, scoring.outbox, scoring.archive):
        assert (
            subprocess.run(
                ["git", "check-ignore", "--quiet", folder / "tickets.csv"], cwd=root, check=False
            ).returncode
            == 0
        )


@pytest.fixture
def refusal(tmp_path):
    """Returns the message about a settings file."""

    def refusal(content: str) -> str:
        file = tmp_path / "conf" / "flows.yaml"
        file.parent.mkdir(exist_ok=True)
        file.write_text(content)
        with pytest.raises(ParamsError) as refused:
            load_settings(tmp_path)
        assert str(file) in str(refused.value)
        return str(refused.value)

    return refusal


@pytest.mark.parametrize("content", ["", "# promotion: {min_rows: 5}\n"])
def test_empty_settings_file_gives_defaults(tmp_path, content):
    (tmp_path / "conf").mkdir()
    (tmp_path / "conf" / "flows.yaml").write_text(content)
    assert load_settings(tmp_path) == Settings()


@pytest.mark.parametrize(
    ("content", "wrong", "nearest"),
    [
        ("promotion: {min_gian: 0.1}\n", "promotion.min_gian", "promotion.min_gain"),
        ("stages: {train: {retrys: 3}}\n", "stages.train.retrys", "stages.*.retries"),
    ],
)
def test_unknown_key_is_refused_with_the_nearest_one(refusal, content, wrong, nearest):
    assert f"\n  {wrong}: unknown key; did you mean {nearest}?" in refusal(content)


def test_all_wrong_values_are_named_with_their_keys(refusal):
    message = refusal(
        "promotion: {min_gain: high}\nscoring: {inbox: 3}\nretention:\nlock_wait_seconds: 'x'\n"
    )
    assert "has 4 errors" in message
    assert "promotion.min_gain: input should be a valid number, not 'high'" in message
    assert "scoring.inbox: input is not a valid path for" in message
    assert "retention: input should be a valid dictionary or instance of Retention, not None" in message
    assert "lock_wait_seconds: input should be a valid number, not 'x'" in message


@pytest.mark.parametrize(
    ("content", "line"),
    [("lock_wait_seconds: 2\nlock_wait_seconds: 3\n", 2), ("git:\n\tretries: 1\n", 2), ("ingest: [\n", 2)],
)
def test_invalid_yaml_is_named_with_its_line(refusal, content, line):
    assert f"flows.yaml, line {line}: invalid YAML" in refusal(content)


@pytest.mark.parametrize(
    "folders", [{"archive": "data/inbox/"}, {"outbox": "./data/inbox"}, {"inbox": "data/x/../archive"}]
)
def test_folders_of_scoring_must_differ(folders):
    with pytest.raises(ValueError, match="different folders"):
        Settings.model_validate({"scoring": folders})


@pytest.mark.parametrize("folder", ["/data/labelled", "data/../../labelled"])
def test_drop_folder_outside_of_the_repository_is_refused(folder):
    with pytest.raises(ValueError, match="outside the repository"):
        Settings.model_validate({"ingest": {"folder": folder}})
