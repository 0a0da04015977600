"""The outs of commits are those that DVC reads, without DVC where that is possible."""

import os
import subprocess
from pathlib import Path

import pytest

from tests.dvc_files import init_dvc
from tests.project import GIT_IDENTITY
from tuneline.repository import stored_outs as module
from tuneline.repository.stored_outs import LockedOuts, StoredOut, outs_by_dvc, stored_outs

MD5 = "d41d8cd98f00b204e9800998ecf8427e"
STAGES = """stages:
  plain:
    cmd: plain
    outs: [a, b.txt, {kept: {persist: true}}, {secret: {push: false}}]
    metrics: [{m.json: {cache: false}}, cached.json]
    plots: [{curves: {x: step}}]
  never-ran:
    cmd: never
    outs: [nothing]
"""
PATHS = ["a", "b.txt", "cached.json", "curves", "kept", "m.json", "secret", "of-a-former-pipeline"]


def locked(paths: list[str], stage: str = "plain") -> str:
    lines = ["schema: '2.0'", "stages:", f"  {stage}:", f"    cmd: {stage}", "    deps:"]
    lines += ["    - path: input", "      hash: md5", f"      md5: {MD5}", "      size: 0", "    outs:"]
    for number, path in enumerate(paths):
        ending = ".dir" if "." not in path else ""
        lines += [f"    - path: {path}", "      hash: md5", f"      md5: f{number:031x}{ending}"]
        lines += [f"      size: {number}"]
        if ending:
            lines += ["      nfiles: 2"]
    return "\n".join(lines) + "\n"


@pytest.fixture
def project(tmp_path) -> Path:
    """A commit with a pipeline and data, which are nowhere."""
    subprocess.run(["git", "init", "--quiet", "--initial-branch=main"], cwd=tmp_path, check=True)
    init_dvc(tmp_path)
    (tmp_path / "input").write_text("")
    (tmp_path / "dvc.yaml").write_text(STAGES)
    (tmp_path / "dvc.lock").write_text(locked(PATHS))
    (tmp_path / "data").mkdir()
    source = "outs:\n- md5: {md5}\n  size: 5\n  hash: md5\n  path: {name}\n"
    (tmp_path / "data/rows.dvc").write_text(source.format(md5=MD5, name="rows"))
    (tmp_path / "data/uncached.dvc").write_text(source.format(md5=MD5, name="uncached") + "  cache: false\n")
    (tmp_path / "data/imported.dvc").write_text(
        "frozen: true\ndeps:\n- path: x\n  repo:\n    url: https://example.org\n"
        + source.format(md5=MD5, name="imported")
    )
    return tmp_path


def commit(root: Path) -> None:
    for command in (["git", "add", "--all", "--force"], ["git", "commit", "--quiet", "--message=State"]):
        subprocess.run(command, cwd=root, check=True, env={**os.environ, **GIT_IDENTITY})


def by_path(outs: list[StoredOut]) -> list[StoredOut]:
    return sorted(outs, key=lambda out: out.path)


def test_outs_are_those_that_dvc_reads(project, monkeypatch):
    commit(project)
    expected = by_path(outs_by_dvc(project, "HEAD"))
    assert [out.path for out in expected] == ["a", "b.txt", "cached.json", "curves", "data/rows", "kept"]
    monkeypatch.setattr(module, "outs_by_dvc", None)  # DVC is not asked
    assert [by_path(outs) for outs in stored_outs(project, ["HEAD", "HEAD"])] == [expected, expected]


def test_each_commit_has_its_own_outs(project):
    commit(project)
    (project / "dvc.lock").write_text(locked(["b.txt", "a"]))
    (project / "data/rows.dvc").unlink()
    commit(project)
    newer, older = stored_outs(project, ["HEAD", "HEAD^"])
    assert by_path(newer) == by_path(outs_by_dvc(project, "HEAD"))
    assert by_path(older) == by_path(outs_by_dvc(project, "HEAD^"))
    assert len(newer) == 2


@pytest.mark.parametrize(
    "pipeline",
    [
        "stages:\n  plain:\n    cmd: plain\n    outs: ['${name}']\nvars: [{name: a}]\n",
        "stages:\n  plain:\n    foreach: [1]\n    do: {cmd: plain, outs: ['a-${item}']}\n",
        "stages:\n  plain:\n    wdir: data\n    cmd: plain\n    outs: [a]\n",
    ],
    ids=["template", "foreach", "wdir"],
)
def test_pipeline_that_only_dvc_understands_is_read_by_dvc(project, pipeline):
    (project / "dvc.yaml").write_text(pipeline)
    (project / "dvc.lock").write_text(locked(["a-1" if "foreach" in pipeline else "a"], stage="plain"))
    if "foreach" in pipeline:
        (project / "dvc.lock").write_text(locked(["a-1"], stage="plain@1"))
    commit(project)
    (outs,) = stored_outs(project, ["HEAD"])
    assert len(outs) == 2, "an out of the stage, and the data"
    assert by_path(outs) == by_path(outs_by_dvc(project, "HEAD"))


def test_ignored_folder_has_no_outs(project, monkeypatch):
    (project / "tests/toy").mkdir(parents=True)
    (project / "tests/toy/dvc.yaml").write_text(STAGES)
    (project / "tests/toy/dvc.lock").write_text(locked(PATHS))
    (project / ".dvcignore").write_text("# tests\n/tests/\n")
    commit(project)
    with monkeypatch.context() as without_dvc:
        without_dvc.setattr(module, "outs_by_dvc", None)
        (outs,) = stored_outs(project, ["HEAD"])
    assert by_path(outs) == by_path(outs_by_dvc(project, "HEAD"))

    (project / ".dvcignore").write_text("")
    commit(project)
    (outs,) = stored_outs(project, ["HEAD"])
    assert by_path(outs) == by_path(outs_by_dvc(project, "HEAD"))
    assert len(outs) == 11


@pytest.mark.parametrize("path", ["'1'", "a b", '"tab\\tname"', "a\n        b"])
def test_lock_is_read_the_same_by_lines_and_as_yaml(path):
    text = locked([path, "plain.txt"])
    as_yaml = LockedOuts("# read as YAML\n" + text).stages
    assert LockedOuts(text).stages == as_yaml
    assert len(as_yaml["plain"]) == 2


def test_unknown_commit_is_an_error(project):
    commit(project)
    with pytest.raises(LookupError, match="no object v9"):
        list(stored_outs(project, ["v9"]))
