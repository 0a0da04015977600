from typer.testing import CliRunner

from tuneline.cli import app


def test_doctor_of_a_repository_of_another_user_ends_with_the_command_to_trust_it(
    checkout, tmp_path, monkeypatch
):
    """All facts of git would be wrong: no commits, nothing to commit."""
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("GIT_TEST_ASSUME_DIFFERENT_OWNER", "1")
    done = CliRunner().invoke(app, ["doctor"])
    assert done.exit_code == 1
    *_, problem, hint = done.output.splitlines()
    assert f"error git does not read {checkout}, because another user owns it" in problem
    assert f"git config --global --add safe.directory {checkout}" in hint
    assert "git or DVC has all files" not in done.output


def test_doctor_exits_with_1_if_a_check_fails(checkout):
    """Without dvc.yaml the pipeline cannot run."""
    (checkout / "dvc.yaml").unlink()
    done = CliRunner().invoke(app, ["doctor"])
    assert done.exit_code == 1
    assert "is not a checkout of Tuneline" in done.output
    assert "-> Change to the root of the project." in done.output
