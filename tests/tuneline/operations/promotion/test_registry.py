import socket
import sys
import time

import pytest

from flows.promotion import main, rollback
from tests.dvc_files import add_model
from tests.flows.conftest import sh
from tuneline.core.repository.registry import Version
from tuneline.core.runtime.errors import DataError
from tuneline.operations.promotion.registry import Registry, RegistryError
from tuneline.operations.runs.repository import Repository, UnreachableError


def commit(registry: Registry) -> str:
    add_model(registry.repository.root)
    sh("git", "add", "dvc.lock", cwd=registry.repository.root)
    sh(
        "git",
        "commit",
        "--quiet",
        "--allow-empty",
        f"--message=A run in {registry.repository.root}",
        cwd=registry.repository.root,
    )
    return registry.repository.resolve("HEAD")


def promote(registry: Registry) -> Version:
    return registry.promote(commit(registry), "It is better.")


def test_promoted_version_is_shown_by_gto(registry):
    version = promote(registry)
    assert version.name == "v0.1.0"
    assert registry.production() == version
    assert "v0.1.0" in sh("gto", "show", cwd=registry.repository.root)
    assert registry.tags().version_of(version.commit) == version


def test_stage_has_the_version_promoted_last(registry):
    first, second = promote(registry), promote(registry)
    assert (first.name, second.name) == ("v0.1.0", "v0.2.0")
    assert registry.production() == second


def test_rollback_assigns_the_previous_version(registry):
    first, second = promote(registry), promote(registry)
    assert rollback(registry, None, "It was worse.") == (second, first)
    assert registry.production() == first


def test_second_rollback_goes_two_versions_back(registry):
    first, second, third = promote(registry), promote(registry), promote(registry)
    rollback(registry, None, "It was worse.")
    assert registry.production() == second
    rollback(registry, None, "So was that one.")
    assert registry.production() == first
    assert third.name == "v0.3.0"


@pytest.mark.promise("lost-version")
def test_rollback_to_a_model_that_is_nowhere_or_damaged_changes_nothing(registry):
    root = registry.repository.root
    _, second = promote(registry), promote(registry)
    stored = [
        path
        for path in (root / ".dvc/cache/files/md5").rglob("*")
        if path.is_file() and path.read_bytes() == b"a model"
    ]
    stored[0].write_bytes(b"another")
    before = registry.tags()
    with pytest.raises(DataError, match="damaged"):
        rollback(registry, None, "It was worse.")
    stored[0].unlink()
    with pytest.raises(DataError, match="cannot be fetched"):
        rollback(registry, "v0.1.0", "It was worse.")
    assert registry.tags() == before
    assert registry.production() == second


def test_origin_that_is_away_is_not_waited_for(registry):
    """The flow ``score`` goes on with what this clone knows.

    A push is tried again for two minutes.
    """
    root = registry.repository.root
    sh("git", "remote", "add", "origin", "git://127.0.0.1:9/gone.git", cwd=root)
    started = time.monotonic()
    messages: list[str] = []
    Registry(Repository(root, messages.append)).fetch_if_possible()
    (message,) = messages
    assert message.startswith("Promotions and rollbacks of other machines are unknown: ")
    assert time.monotonic() - started < 20
    with socket.create_server(("127.0.0.1", 0)) as silent:
        sh(
            "git",
            "remote",
            "set-url",
            "origin",
            f"git://127.0.0.1:{silent.getsockname()[1]}/silent.git",
            cwd=root,
        )
        with pytest.raises(UnreachableError, match="no answer in"):
            registry.repository.transfer("ls-remote", "origin", patience=0.5)


def test_rollback_command(registry, monkeypatch, capsys):
    promote(registry)
    promote(registry)
    monkeypatch.setenv("TUNELINE_REPOSITORY", str(registry.repository.root))

    def command(*words: str) -> str:
        monkeypatch.setattr(sys, "argv", ["promotion", *words])
        main()
        return capsys.readouterr().out

    said = command("rollback", "--reason", "Slow.")
    assert said.startswith("v0.1.0 (")
    assert "promotions of onnx to production are on hold" in said
    assert "Slow." in registry.tags().hold("production")
    assert command("release") == "Promotions are not on hold.\n"
    assert command("hold", "--reason", "A freeze.").endswith(
        "A freeze. End it: python -m flows.promotion release\n"
    )
    command("release")
    promote(registry)
    command("rollback", "--no-hold")
    assert registry.tags().hold("production") is None
    assert registry.production().name == "v0.1.0"


def test_rollback_pushes_a_version_that_origin_does_not_have(registry, tmp_path):
    """Models were promoted without a push so far.

    There is no DVC remote: the version is published all the same, with a message.
    """
    sh("git", "clone", "--quiet", "--bare", str(registry.repository.root), "origin.git", cwd=tmp_path)
    sh("git", "remote", "add", "origin", str(tmp_path / "origin.git"), cwd=registry.repository.root)
    first, _ = promote(registry), promote(registry)
    rollback(registry, None, "It was worse.", push=True)
    sh("git", "clone", "--quiet", "origin.git", "elsewhere", cwd=tmp_path)
    assert Registry(Repository(tmp_path / "elsewhere")).production() == first


def test_version_that_was_taken_back_is_not_promoted_again(registry):
    """A second version of its commit would end ``gto show`` with an error, for everybody."""
    root = registry.repository.root
    first, second = promote(registry), promote(registry)
    later = {"GIT_COMMITTER_DATE": f"@{time.time() + 60:.0f} +0000"}  # gto orders by dates
    sh("git", "tag", "--annotate", "onnx@v0.2.0!", second.commit, "--message=Withdrawn", cwd=root, env=later)
    assert registry.production() == first
    with pytest.raises(RegistryError, match="was taken back"):
        registry.promote(second.commit, "It is better.")
    assert registry.production() == first
    assert "v0.1.0" in sh("gto", "show", cwd=root)
