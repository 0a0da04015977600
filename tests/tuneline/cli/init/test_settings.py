import pytest

from tuneline.cli.init.settings import changed, differing
from tuneline.errors import ParamsError


def test_only_the_lines_of_the_changed_values_change(project):
    before = (project / "params.yaml").read_text()
    after = changed(project / "params.yaml", {"data.source": "files", "data.path": "mine", "data.files.delimiter": "\t"})
    different = [(old, new) for old, new in zip(before.splitlines(), after.splitlines(), strict=True) if old != new]
    assert [new.split(":")[0].strip() for _, new in different] == ["source", "path", "files"]
    assert all("#" not in old or old.split("#")[1] == new.split("#")[1] for old, new in different), "comments stay"


def test_nothing_to_change_changes_nothing(project):
    assert changed(project / "params.yaml", {"data.source": "sample"}) == (project / "params.yaml").read_text()
    assert differing(project / "params.yaml", {"data.source": "sample"}) == {}


def test_a_key_that_the_file_leaves_out_is_added(tmp_path):
    path = tmp_path / "params.yaml"
    path.write_text("model:\n  config: {model_type: bert}\n")
    assert "delimiter: ;" in changed(path, {"data.files.delimiter": ";"})


def test_names_that_yaml_would_misread_come_back_as_they_were(project):
    names = ["yes", "1: 2", "# no comment", "null", "é"]
    from ruamel.yaml import YAML

    text = changed(project / "params.yaml", {"data.files.columns": names})
    assert YAML(typ="safe", pure=True).load(text)["data"]["files"]["columns"] == names


def test_an_outcome_that_the_line_would_refuse_is_never_written(project):
    with pytest.raises(ParamsError, match=r"data\.label_column: 'subject' is a text column too"):
        changed(project / "params.yaml", {"data.label_column": "subject"})
