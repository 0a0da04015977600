"""What is in production, at a glance."""

import subprocess

import pytest
from typer.testing import CliRunner

from tests.project import GIT_IDENTITY
from tuneline.cli import app

runner = CliRunner()


@pytest.fixture
def git(tmp_path, monkeypatch):
    """Runs git in an empty repository, which is the working directory."""
    monkeypatch.chdir(tmp_path)
    for name, value in {**GIT_IDENTITY, "GIT_COMMITTER_DATE": "@1700000000 +0000"}.items():
        monkeypatch.setenv(name, value)

    def git(*arguments: str) -> None:
        subprocess.run(["git", *arguments], check=True)

    git("init", "--quiet")
    return git


def promote(git, number: int) -> None:
    git("commit", "--quiet", "--allow-empty", f"--message=Run {number}")
    git("tag", "--annotate", f"onnx@v0.{number}.0", "--message=Better")
    git("tag", "--annotate", f"onnx#production#{number}", f"--message=Better \x1b[2J {number}")


def shown(*options: str) -> list[str]:
    done = runner.invoke(app, ["versions", *options])
    assert done.exit_code == 0, done.output
    return done.output.splitlines()


def test_versions_are_shown_newest_first_with_what_is_in_production_and_who_put_it_there(git):
    for number in range(1, 13):
        promote(git, number)
    first, *lines = shown()
    assert first.startswith("onnx v0.12.0 is in production since 2023-11-14 22:13 UTC (")
    assert first.endswith(r"Better \x1b[2J 12)")
    assert lines[0].split() == ["v0.12.0", lines[0].split()[1], "2023-11-14", "22:13", "UTC", "production"]
    assert lines[1].startswith("  v0.11.0  ")
    assert len(lines) == 12


def test_hold_is_shown(git):
    promote(git, 1)
    git("tag", "--annotate", "onnx#production-hold#2", "--message=A freeze")
    assert "promotions of onnx to production are on hold" in "\n".join(shown())
