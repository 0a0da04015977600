"""Passwords are in no message, and stages do not get what only git needs."""

import pytest

from tuneline.core.repository.git import GitError
from tuneline.core.repository.programs import ProgramError, Programs
from tuneline.operations.runs.pipeline import Pipeline
from tuneline.operations.runs.repository import Repository


def test_password_is_not_in_a_git_error(tmp_path):
    with pytest.raises(GitError) as error:
        Repository(tmp_path).git("clone", "--", "http://me:pa/ss@127.0.0.1:9/x.git", "there")
    assert "***@127.0.0.1:9/x.git" in str(error.value)
    assert "pa/ss" not in str(error.value)


def test_password_is_not_in_the_output_of_a_program(tmp_path):
    seen = []
    with pytest.raises(ProgramError) as error:
        Programs(tmp_path, "test").run(
            ["sh", "-c", "echo cannot push to https://me:s3cret@host/x; exit 1"], "It", seen.append
        )
    assert seen == ["cannot push to https://***@host/x"]
    assert "s3cret" not in str(error.value)


def test_stages_do_not_get_the_credentials_of_git(toy, monkeypatch):
    monkeypatch.setenv("GIT_TOKEN", "s3cret")
    monkeypatch.setenv("PREFECT_API_AUTH_STRING", "s3cret")
    monkeypatch.setenv("HF_TOKEN", "for the hub")
    (toy.root / "dvc.yaml").write_text("stages:\n  train:\n    cmd: env > out\n    outs: [out]\n")
    programs = Programs(toy.root, "test")
    Pipeline(programs, print).reproduce("train")
    seen = (toy.root / "out").read_text()
    assert "s3cret" not in seen
    assert "HF_TOKEN=for the hub" in seen
