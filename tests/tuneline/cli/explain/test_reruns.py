import pytest

from tests.conftest import ROOT
from tuneline.cli.explain import MARKERS, Reruns, StageGraph
from tuneline.core.files import read_yaml

GRAPH = """\
stages:
  read:
    params: [seed, data]
    deps: [source]
    outs: [raw]
  check:
    params: [check, data.task]
    deps: [raw]
    outs: [reports/checks]
  learn:
    params: [learn, options.yaml: [key]]
    deps: [raw/rows, reports/checks/passed]
    outs: [model]
    metrics: [learn.json: {cache: false}]
  test:
    deps: [model, learn.json]
"""


@pytest.fixture
def graph(tmp_path):
    (tmp_path / "dvc.yaml").write_text(GRAPH)
    return StageGraph.read(tmp_path / "dvc.yaml")


@pytest.mark.parametrize(
    ("key", "readers", "followers"),
    [
        ("learn.rate", ("learn",), ("test",)),
        ("learn", ("learn",), ("test",)),
        ("learning", (), ()),
        ("data.path", ("read",), ("check", "learn", "test")),
        ("data.task", ("read", "check"), ("learn", "test")),
        ("data.task.kind", ("read", "check"), ("learn", "test")),
    ],
)
def test_stages_that_list_a_parameter_and_those_after_them_are_rerun(graph, key, readers, followers):
    assert graph.reruns(key) == Reruns(readers, followers)


def test_stage_that_only_waits_for_a_marker_is_not_rerun(graph):
    assert graph.reruns("check.severity") == Reruns(("check",))


def test_markers_are_dependencies_of_the_pipeline():
    deps = {dep for stage in read_yaml(ROOT / "dvc.yaml")["stages"].values() for dep in stage["deps"]}
    assert deps >= MARKERS


@pytest.mark.parametrize(
    ("reruns", "words"),
    [
        (Reruns(()), "no stage"),
        (Reruns(("compare",)), "compare"),
        (Reruns(("export",), ("compare",)), "export; then compare if its inputs change"),
        (Reruns(("a", "b"), ("c", "d")), "a, b; then c, d if their inputs change"),
    ],
)
def test_reruns_in_words(reruns, words):
    assert str(reruns) == words
