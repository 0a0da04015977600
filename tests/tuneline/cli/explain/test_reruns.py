import pytest

from tests.conftest import ROOT
from tuneline.cli.explain import MARKERS, reruns
from tuneline.core.yaml_files import read_yaml

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
def stages(tmp_path):
    (tmp_path / "dvc.yaml").write_text(GRAPH)
    return read_yaml(tmp_path / "dvc.yaml")["stages"]


@pytest.mark.parametrize(
    ("key", "words"),
    [
        ("learn.rate", "learn; then test if its inputs change"),
        ("learn", "learn; then test if its inputs change"),
        ("learning", "no stage"),
        ("data.path", "read; then check, learn, test if their inputs change"),
        ("data.task", "read, check; then learn, test if their inputs change"),
        ("data.task.kind", "read, check; then learn, test if their inputs change"),
    ],
)
def test_stages_that_list_a_parameter_and_those_after_them_are_rerun(stages, key, words):
    assert reruns(key, stages) == words


def test_stage_that_only_waits_for_a_marker_is_not_rerun(stages):
    assert reruns("check.severity", stages) == "check"


def test_markers_are_dependencies_of_the_pipeline():
    deps = {dep for stage in read_yaml(ROOT / "dvc.yaml")["stages"].values() for dep in stage["deps"]}
    assert deps >= MARKERS
