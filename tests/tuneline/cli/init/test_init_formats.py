"""The layout of a file: what ``tuneline init`` detects is what the stage ``download`` reads."""

import pytest
from typer.testing import CliRunner

from tuneline.cli import app
from tuneline.core.params.loading import load_params

runner = CliRunner(env={"COLUMNS": "200"})


def init(*words):
    return runner.invoke(app, ["init", *map(str, words)])


@pytest.mark.real_data
def test_mrpc_is_recognised_and_copied_unchanged(project, shared):
    done = init(*sorted((shared / "data/mrpc").glob("*.tsv")), "--force", "--name", "mrpc")
    assert done.exit_code == 0, done.output
    data = load_params().data
    assert data.split is None
    assert (data.text_columns, data.label_column, data.files.quoting) == (
        ["#1 String", "#2 String"],
        "Quality",
        None,
    )
    for split in ("train", "validation", "test"):
        assert (project / f"data/source/mrpc/{split}.tsv").read_bytes() == (
            shared / f"data/mrpc/{split}.tsv"
        ).read_bytes()


def test_encoding_is_asked_for_and_a_named_one_is_used(project):
    rows = "".join(f"{'ab'[n % 2]},žlutý kůň {n}\n" for n in range(40))
    (project / "a.csv").write_bytes(f"label,text\n{rows}".encode("cp1250"))
    asked = init(project / "a.csv", "--force")
    assert asked.exit_code != 0
    assert "--encoding" in asked.output
    named = init(project / "a.csv", "--force", "--encoding", "cp1250")
    assert "žlutý kůň" in named.output
    assert load_params().data.files.encoding == "cp1250"
