import re
from pathlib import Path

import pytest
from ruamel.yaml import YAML

from tests.params import complete, params
from tuneline.core.params.loading import load_params, parse_params, read_yaml
from tuneline.core.runtime.errors import ParamsError

HERE = Path(__file__).parent
INVALID = sorted((HERE / "invalid").glob("*.yaml"))
VALID = sorted((HERE / "valid").glob("*.yaml"))


@pytest.fixture
def values():
    """A whole parameter file, to be changed by a test."""
    return complete({})


def test_params_yaml_has_the_defaults_with_a_small_model(root):
    written = load_params(root / "params.yaml")
    assert written == params(model={"config": written.model.config})


@pytest.mark.parametrize("key", ["seed", "model", "train.keep", "validate.near_duplicate_similarity"])
def test_missing_key_is_named_although_it_has_a_default(values, key):
    """DVC tracks what the file says, so another default in a later version would change results unseen."""
    *sections, last = key.split(".")
    section = values
    for name in sections:
        section = section[name]
    del section[last]
    with pytest.raises(ParamsError, match=f"{re.escape(key)}: missing"):
        parse_params(values)


@pytest.mark.parametrize("path", VALID, ids=lambda path: path.stem)
def test_valid_files_are_accepted(path):
    parse_params(complete(read_yaml(path)))


@pytest.mark.parametrize("path", INVALID, ids=lambda path: path.stem)
def test_invalid_files_are_refused_with_key_and_hint(path):
    """The comment lines at the start of each file are the expected message."""
    expected = [line[2:].rstrip() for line in path.read_text().splitlines() if line.startswith("# ")]
    assert expected
    with pytest.raises(ParamsError) as refused:
        parse_params(complete(read_yaml(path)), path)
    for line in expected:
        assert line in str(refused.value)


def test_invalid_yaml_is_named_with_its_line(tmp_path):
    (tmp_path / "params.yaml").write_text("seed: 1\ndata: [unclosed\n")
    with pytest.raises(ParamsError, match=r"params\.yaml, line \d+"):
        load_params(tmp_path / "params.yaml")


def test_conflict_of_a_merge_is_called_that(tmp_path):
    (tmp_path / "params.yaml").write_text(
        "seed: 1\ndata:\n<<<<<<< HEAD\n  source: files\n=======\n  source: hub\n>>>>>>> theirs\n"
    )
    with pytest.raises(ParamsError, match="line 3: a merge"):
        load_params(tmp_path / "params.yaml")


@pytest.mark.parametrize(
    "content", ["[" * 2000, "{a: " * 2000, "".join(f"{' ' * depth}a:\n" for depth in range(1000))]
)
def test_yaml_that_is_nested_too_deep_is_refused(tmp_path, content):
    (tmp_path / "params.yaml").write_text(content)
    with pytest.raises(ParamsError, match=r"params\.yaml: .*deep"):
        load_params(tmp_path / "params.yaml")


def test_duplicate_key_is_named(tmp_path):
    (tmp_path / "params.yaml").write_text("seed: 1\nseed: 2\n")
    with pytest.raises(ParamsError, match="seed"):
        load_params(tmp_path / "params.yaml")


def test_numbers_are_parsed_as_dvc_parses_them(values):
    values["train"]["learning_rate"] = YAML(typ="safe", pure=True).load("2e-5")
    assert parse_params(values).train.learning_rate == 2e-5


@pytest.mark.parametrize(
    ("wrong", "suggested"),
    [
        ("train.learning_rat", "train.learning_rate"),
        ("sed", "seed"),
        ("data.text_column", "data.text_columns"),
        ("data.seed", "seed"),
    ],
)
def test_misspelled_key_gets_the_nearest_known_key(values, wrong, suggested):
    section, _, key = wrong.rpartition(".")
    (values[section] if section else values)[key] = 1
    with pytest.raises(ParamsError, match=f"{wrong}: .*{suggested}"):
        parse_params(values)
