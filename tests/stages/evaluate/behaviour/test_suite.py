import pytest

from stages.evaluate.behaviour import read_suite
from tests.conftest import ROOT
from tuneline.params.loading import load_params
from tuneline.runtime.errors import ParamsError

TEST = "tests:\n  - {name: a, kind: invariance, change: typo"


@pytest.fixture
def write(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "conf/behaviour").mkdir(parents=True)
    return (tmp_path / "conf/behaviour/own.yaml").write_text


@pytest.mark.parametrize("name", sorted(path.stem for path in (ROOT / "conf/behaviour").glob("*.yaml")))
def test_suites_of_the_project_are_valid(name, monkeypatch):
    monkeypatch.chdir(ROOT)
    assert read_suite(name).tests


def test_suite_named_in_params_yaml_exists(monkeypatch):
    monkeypatch.chdir(ROOT)
    name = load_params().evaluate.behaviour
    assert name is None or read_suite(name).tests


def test_missing_suite_lists_the_available_ones(write):
    write(TEST + "}\n")
    with pytest.raises(ParamsError, match=r"behaviour/other\.yaml"):
        read_suite("other")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("tests: [", "line"),
        (TEST + ", rowz: 3}", "rowz: unknown key"),
        (TEST + "}\n  - {name: a, kind: invariance, change: typo}", "tests: 'a' is listed twice"),
        (TEST.replace("typo", "tpyo") + "}", "change"),
        (TEST + ", fill: {x: [y]}}", "fill: there are no templates"),
        ("tests:\n  - {name: a, kind: direction, change: typo, label: x}", "moves: missing"),
    ],
)
def test_invalid_suite_is_an_error_with_its_file(write, text, message):
    write(text)
    with pytest.raises(ParamsError) as caught:
        read_suite("own")
    assert message in str(caught.value)
    assert "own.yaml" in str(caught.value)
