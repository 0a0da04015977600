import re
from pathlib import Path

import pytest

from tests.params import write_params
from tuneline.core.params.params_file import changed, differing


@pytest.fixture
def params_file(tmp_path) -> Path:
    write_params(tmp_path)
    return tmp_path / "params.yaml"


def commented(path: Path, *keys: str) -> str:
    """Write a comment after the lines of some parameters."""
    path.write_text(re.sub(rf"(?m)^(  ({'|'.join(keys)}):.*)$", r"\1  # why", path.read_text()))
    return path.read_text()


def test_change_keeps_all_other_lines(params_file):
    before = commented(params_file, "source", "path", "files")
    after = changed(params_file, {"data.source": "files", "data.path": "mine", "data.files.delimiter": "\t"})
    different = [
        (old, new) for old, new in zip(before.splitlines(), after.splitlines(), strict=True) if old != new
    ]
    assert {new.split(":")[0].strip() for _, new in different} == {"source", "path", "files"}
    assert all(new.endswith("# why") for _, new in different), "comments stay"


def test_equal_values_keep_the_file_identical(params_file):
    assert changed(params_file, {"data.source": "sample"}) == (params_file).read_text()
    assert differing(params_file, {"data.source": "sample"}) == {}


def test_names_that_look_like_yaml_are_quoted(params_file):
    names = ["yes", "1: 2", "# no comment", "null", "é", "project/metrics.py:cost"]
    from ruamel.yaml import YAML

    text = changed(params_file, {"data.files.columns": names})
    for pure in (True, False):  # as tuneline reads it, and as DVC does
        assert YAML(typ="safe", pure=pure).load(text)["data"]["files"]["columns"] == names
