import re
from pathlib import Path

import pytest

from tuneline.cli.init.settings import changed, differing
from tuneline.errors import ParamsError


def commented(path: Path, *keys: str) -> str:
    """Write a comment after the lines of some parameters."""
    path.write_text(re.sub(rf"(?m)^(  ({'|'.join(keys)}):.*)$", r"\1  # why", path.read_text()))
    return path.read_text()


def test_change_keeps_all_other_lines(project):
    before = commented(project / "params.yaml", "source", "path", "files")
    after = changed(project / "params.yaml", {"data.source": "files", "data.path": "mine", "data.files.delimiter": "\t"})
    different = [(old, new) for old, new in zip(before.splitlines(), after.splitlines(), strict=True) if old != new]
    assert {new.split(":")[0].strip() for _, new in different} == {"source", "path", "files"}
    assert all(new.endswith("# why") for _, new in different), "comments stay"


def test_equal_values_keep_the_file_identical(project):
    assert changed(project / "params.yaml", {"data.source": "sample"}) == (project / "params.yaml").read_text()
    assert differing(project / "params.yaml", {"data.source": "sample"}) == {}


def test_section_that_was_null_is_written_in_one_line(project):
    commented(project / "params.yaml", "split")
    text = changed(project / "params.yaml", {"data.split": {"validation": 0.1, "test": 0.2, "by": None, "stratify": True}})
    assert "  split: {validation: 0.1, test: 0.2, by: null, stratify: true} # why\n" in text


def test_names_that_look_like_yaml_are_quoted(project):
    names = ["yes", "1: 2", "# no comment", "null", "é"]
    from ruamel.yaml import YAML

    text = changed(project / "params.yaml", {"data.files.columns": names})
    assert YAML(typ="safe", pure=True).load(text)["data"]["files"]["columns"] == names


def test_result_that_is_not_valid_is_refused(project):
    with pytest.raises(ParamsError, match=r"data\.label_column: 'subject' is also a text column"):
        changed(project / "params.yaml", {"data.label_column": "subject"})
