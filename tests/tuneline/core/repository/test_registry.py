import subprocess
from itertools import count

import pytest
from gto import api as gto

from tuneline.core.repository.registry import TAG_FORMAT, RegistryTags

HISTORIES = {
    "promotions": ["a@v0.1.0", "a#1", "b@v0.2.0", "b#2"],
    "rollback": ["a@v0.1.0", "a#1", "b@v0.2.0", "b#2", "a#3"],
    "more than nine": ["a@v0.1.0", "b@v0.2.0", *(f"{'ab'[number % 2]}#{number}" for number in range(1, 13))],
    "unassigned": ["a@v0.1.0", "a#1", "b@v0.2.0", "b#2", "b!#3"],
    "assigned again": ["a@v0.1.0", "a#1", "a!#2", "a#3"],
    "all unassigned": ["a@v0.1.0", "a#1", "a!#2"],
    "deregistered": ["a@v0.1.0", "a#1", "b@v0.2.0", "b#2", "b@v0.2.0!"],
    "without a version": ["a#1"],
}


@pytest.fixture
def repository(tmp_path):
    """A repository whose tags are made in the given order, and a function that makes them."""

    def git(*arguments: str, env: dict[str, str] | None = None) -> str:
        identity = ["-c", "user.name=A", "-c", "user.email=a@localhost"]
        return subprocess.run(
            ["git", *identity, *arguments], cwd=tmp_path, env=env, check=True, capture_output=True, text=True
        ).stdout

    git("init", "--quiet")
    for name in "ab":
        git("commit", "--quiet", "--allow-empty", f"--message={name}")
        git("tag", name)
    seconds = count(1_700_000_000)

    def make(*events: str) -> None:
        for event in events:
            rest = event[1:]
            name = f"onnx{rest}" if rest.startswith("@") else f"onnx#production{rest}"
            git(
                "tag",
                "--annotate",
                name,
                event[0],
                "--message=x",
                env={"GIT_COMMITTER_DATE": f"@{next(seconds)} +0000"},
            )

    make.git = git
    make.root = tmp_path
    return make


def read(repository) -> RegistryTags:
    printed = repository.git("for-each-ref", f"--format={TAG_FORMAT}", "refs/tags")
    return RegistryTags.parse("onnx", printed)


@pytest.mark.parametrize("history", HISTORIES.values(), ids=HISTORIES)
def test_version_in_a_stage_is_the_one_that_gto_shows(repository, history):
    repository(*history)
    shown = {
        (one["version"], one["commit_hexsha"]) for one in gto.show(str(repository.root), "onnx#production")
    }
    present = read(repository).in_stage("production")
    assert ({(present.name, present.commit)} if present else set()) == shown


def test_registered_versions_are_those_that_gto_shows(repository):
    repository("b@v0.10.0", "a@v0.9.0")
    assert [version.name for version in read(repository).versions] == ["v0.9.0", "v0.10.0"]
    repository("b@v0.10.0!")
    assert [version.name for version in read(repository).versions] == ["v0.9.0"]
    assert read(repository).next_version() == "v0.11.0", "a number is not used twice"


def test_dates_of_tags_decide_nothing(repository):
    """The second promotion was made by a machine whose clock is behind."""
    repository("a@v0.1.0", "a#1", "b@v0.2.0")
    date = {"GIT_COMMITTER_DATE": "@1600000000 +0000"}
    repository.git("tag", "--annotate", "onnx#production#2", "b", "--message=x", env=date)
    assert read(repository).in_stage("production").name == "v0.2.0"
    assert len(read(repository).succession("production")) == 2


def test_message_with_a_separator_of_unicode_is_one_line(repository):
    repository("a@v0.1.0")
    repository.git("tag", "--annotate", "notes", "a", "--message=one\u2028two")
    assert [tag.name for tag in read(repository).tags] == ["onnx@v0.1.0"]


def test_other_tags_are_no_part_of_the_registry(repository):
    repository("a@v0.1.0")
    for name in ("v1.0", "onnx", "onnx@latest", "release@main", "onnx@deprecated", "mine@v1.0.0"):
        repository.git("tag", "--annotate", name, "a", "--message=x")
    assert [tag.name for tag in read(repository).tags] == ["onnx@v0.1.0"]
