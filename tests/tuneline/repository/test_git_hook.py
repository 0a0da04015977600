"""Data follow ``git pull`` and ``git switch`` in a clone with the hook."""

from tests.tuneline.repository.conftest import DATA, FILE, pull, sh
from tuneline.repository.git_hook import install, is_installed
from tuneline.repository.source_versions import other_versions


def test_data_follow_pull_and_switch(clone):
    assert not is_installed(clone)
    install(clone)
    assert is_installed(clone)
    before = sh("git", "rev-parse", "HEAD", cwd=clone).stdout.strip()
    pull(clone)
    assert other_versions(clone) == []
    assert "b,y" in (clone / DATA / "all.csv").read_text()
    sh("git", "switch", "--quiet", "--detach", before, cwd=clone)
    assert other_versions(clone) == []
    assert "b,y" not in (clone / DATA / "all.csv").read_text()


def test_working_trees_of_runs_and_files_are_left_alone(clone, tmp_path):
    install(clone)
    sh("git", "worktree", "add", "--quiet", tmp_path / "tree", cwd=clone)
    assert not (tmp_path / "tree" / DATA).exists()
    (clone / DATA / "all.csv").write_text("mine")
    sh("git", "checkout", "--", FILE, cwd=clone)
    assert (clone / DATA / "all.csv").read_text() == "mine"
