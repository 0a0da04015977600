"""The registries of two machines are merged: nothing of origin changes, and no version is lost."""

from dataclasses import replace

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from flows.promotion.registry import merge
from tuneline.repository.registry import RegistryTag, RegistryTags


def tag(name: str, commit: str) -> RegistryTag:
    """A tag of a name on a commit; its object is that of no other tag."""
    parsed = RegistryTag.parse(name, f"{name} {commit}", commit)
    assert parsed is not None
    return parsed


def registry(commits: dict[str, str]) -> RegistryTags:
    return RegistryTags("onnx", tuple(tag(name, commit) for name, commit in commits.items()))


def after(ours: RegistryTags, theirs: RegistryTags) -> RegistryTags:
    """The registry after the merge, with new objects for renamed tags."""
    merged, _ = merge(ours, theirs)
    return RegistryTags(
        "onnx", tuple(one if one.name == name else tag(name, one.commit) for name, one in merged.items())
    )


UNHURRIED = settings(suppress_health_check=[HealthCheck.too_slow])  # a busy machine is no failure
COMMITS = st.sampled_from("abcdefgh")
VERSIONS = st.integers(1, 5).map(lambda number: f"onnx@v0.{number}.0")
ASSIGNMENTS = st.builds(
    lambda stage, number: f"onnx#{stage}#{number}",
    st.sampled_from(["production", "staging"]),
    st.integers(1, 5),
)


@st.composite
def registries(draw, commits=COMMITS) -> RegistryTags:
    """A registry, in which a commit has one version."""
    versions = draw(st.dictionaries(VERSIONS, commits, max_size=4))
    unique = {commit: name for name, commit in versions.items()}
    return registry(
        {
            **{name: commit for commit, name in unique.items()},
            **draw(st.dictionaries(ASSIGNMENTS, commits, max_size=4)),
        }
    )


@UNHURRIED
@given(registries(), registries())
def test_merge_keeps_all_of_origin_and_every_version(ours, theirs):
    merged = after(ours, theirs)
    assert set(theirs.tags) <= set(merged.tags), "what is published never changes"
    commits = [version.commit for version in merged.versions]
    assert {version.commit for version in ours.versions} <= set(commits), "no version is lost"
    assert len(commits) == len(set(commits)), "gto does not read two versions of one commit"


@UNHURRIED
@given(registries(), registries())
def test_merge_is_complete_after_one_time(ours, theirs):
    merged = after(ours, theirs)
    assert set(after(merged, theirs).tags) == set(merged.tags)
    assert merge(merged, theirs)[1] == []


@UNHURRIED
@given(registries(), registries())
def test_stage_that_both_changed_is_that_of_origin(ours, theirs):
    merged = after(ours, theirs)
    for stage in ("production", "staging"):
        news = {one.name for one in theirs.tags if one.stage == stage} - {one.name for one in ours.tags}
        if news:
            assert merged.in_stage(stage).commit == theirs.in_stage(stage).commit


def test_registry_that_is_ahead_of_origin_is_kept():
    theirs = registry({"onnx@v0.1.0": "a", "onnx#production#1": "a"})
    ours = RegistryTags("onnx", (*theirs.tags, tag("onnx@v0.2.0", "b"), tag("onnx#production#2", "b")))
    assert set(after(ours, theirs).tags) == set(ours.tags)


def test_all_unpublished_versions_are_renumbered_in_their_order():
    theirs = registry({"onnx@v0.1.0": "a", "onnx@v0.2.0": "x"})
    merged, messages = merge(registry({"onnx@v0.1.0": "a", "onnx@v0.2.0": "b", "onnx@v0.3.0": "c"}), theirs)
    assert {name: one.commit for name, one in merged.items()} == {
        "onnx@v0.1.0": "a", "onnx@v0.2.0": "x", "onnx@v0.3.0": "b", "onnx@v0.4.0": "c",
    }  # fmt: skip
    assert [message.partition(" (")[0] for message in messages] == ["onnx@v0.2.0", "onnx@v0.3.0"]


def test_same_tag_made_again_is_that_of_origin():
    theirs = registry({"onnx@v0.1.0": "a", "onnx#production#1": "a"})
    ours = RegistryTags("onnx", tuple(replace(one, object=f"another {one.name}") for one in theirs.tags))
    assert merge(ours, theirs)[0] == {one.name: one for one in theirs.tags}


def test_version_that_origin_has_under_another_number_is_not_registered_twice():
    theirs = registry({"onnx@v0.5.0": "a"})
    assert after(registry({"onnx@v0.1.0": "a"}), theirs).tags == theirs.tags


def test_deregistration_moves_with_its_version():
    theirs = registry({"onnx@v0.1.0": "x"})
    merged = after(registry({"onnx@v0.1.0": "a", "onnx@v0.1.0!": "a"}), theirs)
    assert [version.commit for version in merged.versions] == ["x"]
    assert {one.name for one in merged.tags} == {"onnx@v0.1.0", "onnx@v0.2.0", "onnx@v0.2.0!"}
