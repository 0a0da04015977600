"""``tuneline show --against``: two models on the rows of both, by the present labels."""

import re
import shutil

from typer.testing import CliRunner

from tests.shards import into_shards
from tuneline.cli import app

runner = CliRunner(env={"COLUMNS": "200"})


def test_retrained_model_is_compared_with_the_one_before_the_corrections(project):
    raw = project.root / "data/raw"
    into_shards(raw, rows=50)
    project.lock(seed=1)
    before = project.commit("Another commit, with shards")
    shutil.rmtree(raw)
    project.rows -= 20
    project.data(relabelled=6)
    into_shards(raw, rows=30)
    project.evaluate(skill=8.0, seed=2)
    project.lock(seed=2)
    done = runner.invoke(app, ["show", "--against", before])
    assert done.exit_code == 0, done.output
    assert re.search(rf"now +┃ {before} +┃ difference", done.output)
    assert "On 100 rows of both" in done.output
    assert "Clearly better (McNemar's test: p = " in done.output
    assert f"6 of these rows had another label at {before}" in done.output
    assert (
        f"Left out: 0 rows that only this model predicted, and 20 that only that of {before} did."
        in done.output
    )
    assert "git knows no such commit" in runner.invoke(app, ["show", "--against", "nosuch"]).output
    assert "Leave MODEL out" in runner.invoke(app, ["show", "--against", before, "models/onnx"]).output
    (project.root / ".dvc/cache").rename(project.root / ".dvc/gone")
    assert (
        "Run `dvc fetch --all-commits reports/predictions.parquet data/raw`"
        in runner.invoke(app, ["show", "--against", before]).output
    )
    (project.root / "reports/predictions.parquet").unlink()
    assert "run `dvc repro evaluate`" in runner.invoke(app, ["show", "--against", before]).output
