import pytest

from flows.promotion.registry import ConflictError, Registry, RegistryError, Version
from flows.promotion.rollback import rollback
from flows.runs.repository import Repository
from tests.flows.conftest import sh


def commit(registry: Registry) -> str:
    sh("git", "commit", "--quiet", "--allow-empty", f"--message=A run in {registry.repository.root}", cwd=registry.repository.root)
    return registry.repository.resolve("HEAD")


def promote(registry: Registry) -> Version:
    version = registry.register(commit(registry), "It is better.")
    registry.assign(version, "production", "It is better.")
    return version


def test_nothing_is_in_production_at_first(registry):
    assert registry.in_stage("production") is None


def test_a_promoted_version_is_the_one_that_gto_and_dvc_find(registry):
    version = promote(registry)
    assert version.name == "v0.1.0"
    assert registry.in_stage("production") == version
    assert "v0.1.0" in sh("gto", "show", cwd=registry.repository.root)
    assert registry.version_of(version.commit) == version


def test_a_stage_holds_the_version_promoted_last(registry):
    first, second = promote(registry), promote(registry)
    assert (first.name, second.name) == ("v0.1.0", "v0.2.0")
    assert registry.in_stage("production") == second


def test_rollback_puts_the_version_before_back(registry):
    first, second = promote(registry), promote(registry)
    assert rollback(registry, "production", None, "It was worse.") == (second, first)
    assert registry.in_stage("production") == first


def test_rolling_back_twice_goes_two_versions_back(registry):
    first, second, third = promote(registry), promote(registry), promote(registry)
    rollback(registry, "production", None, "It was worse.")
    assert registry.in_stage("production") == second
    rollback(registry, "production", None, "So was that one.")
    assert registry.in_stage("production") == first
    assert third.name == "v0.3.0"


def test_rollback_to_a_version_by_name(registry):
    first, _, _ = promote(registry), promote(registry), promote(registry)
    rollback(registry, "production", "v0.1.0", "That was the good one.")
    assert registry.in_stage("production") == first


def test_rollback_says_which_versions_there_are(registry):
    promote(registry)
    with pytest.raises(RegistryError, match=r"no version 'v9\.9\.9'; it has v0\.1\.0"):
        rollback(registry, "production", "v9.9.9", "A typo.")
    with pytest.raises(RegistryError, match="No version was in production before"):
        rollback(registry, "production", None, "There is no other.")


def test_rollback_is_one_command(registry, root):
    promote(registry)
    promote(registry)
    said = sh("python", "-m", "flows.promotion.rollback", cwd=root, env={"TUNELINE_REPOSITORY": str(registry.repository.root)})
    assert said.startswith("onnx in production: v0.1.0")


def test_a_rollback_reaches_an_origin_that_never_heard_of_the_version(registry, tmp_path):
    """Models were promoted without a push so far."""
    sh("git", "clone", "--quiet", "--bare", str(registry.repository.root), "origin.git", cwd=tmp_path)
    sh("git", "remote", "add", "origin", str(tmp_path / "origin.git"), cwd=registry.repository.root)
    first, _ = promote(registry), promote(registry)
    rollback(registry, "production", None, "It was worse.", push=True)
    sh("git", "clone", "--quiet", "origin.git", "elsewhere", cwd=tmp_path)
    assert Registry(Repository(tmp_path / "elsewhere"), "onnx").in_stage("production") == first


def test_a_promotion_on_another_machine_is_noticed_and_nothing_is_left_of_ours(registry, tmp_path):
    sh("git", "clone", "--quiet", "--bare", str(registry.repository.root), "origin.git", cwd=tmp_path)
    clones = []
    for name in ("one", "two"):
        sh("git", "clone", "--quiet", "origin.git", name, cwd=tmp_path)
        clones.append(Registry(Repository(tmp_path / name), "onnx"))
    one, two = clones
    promote(one)
    one.push(sorted(one.tags()))
    promote(two)
    with pytest.raises(ConflictError):
        two.push(sorted(two.tags()))
    assert two.tags() == set()
    sh("git", "fetch", "--quiet", "--tags", cwd=two.repository.root)
    assert two.in_stage("production") == one.in_stage("production")
