"""Flow ``train`` on the data of earlier days, so that months can be compared."""

import json

import pytest
from ruamel.yaml import YAML

from flows.runs.pipeline import Pipeline
from flows.runs.processes import Programs
from tests.flows.conftest import sh
from tests.project import Project
from tuneline.params.loading import load_params


def test_period_of_a_run_composes_to_parameters_of_the_pipeline(tmp_path):
    project = Project.copy_to(tmp_path)
    programs = Programs(tmp_path, "period")
    Pipeline(programs, print).compose(["data.source=files", "data.as_of=2026-11-21", "data.last_days=30"])
    data = load_params(project.folder / "params.yaml").data
    assert (data.as_of, data.last_days) == ("2026-11-21", 30)
    assert "data.as_of" in project.run("dvc", "params", "diff").stdout, (
        "DVC does not take a date without quotes"
    )


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.promise("earlier-day")
def test_backfill_compares_months(run, toy):
    """The small pipeline has more rows by the month here."""
    yaml = YAML()
    for name in ("params.yaml", "conf/task/tickets.yaml"):
        params = yaml.load(toy.root / name)
        params["data"] |= {"as_of": None, "last_days": None}
        yaml.dump(params, toy.root / name)
    code = (toy.root / "toy.py").read_text()
    rows = '{"2026-09-30": 200, "2026-10-31": 400}.get(PARAMS["data"]["as_of"], 600)'
    (toy.root / "toy.py").write_text(code.replace('"train": PARAMS["data"]["rows"]', f'"train": {rows}'))
    pipeline = (toy.root / "dvc.yaml").read_text()
    (toy.root / "dvc.yaml").write_text(
        pipeline.replace("data.rows,", "data.rows, data.as_of, data.last_days,")
    )
    sh("git", "commit", "--quiet", "--all", "--message=Data that grow", cwd=toy.root)

    runs = [run(as_of=day, last_days=30, promote=False) for day in ("2026-09-30", "2026-10-31", "2026-09-30")]
    assert all(one.state.is_completed() for one in runs), [one.state.message for one in runs]
    assert runs[2].state.name == "NothingNew", "the run of a day is repeated, whatever was trained since"
    listed = [
        sh("git", "branch", "--list", f"runs/*-{one.name}", "--format=%(refname:short)", cwd=toy.root)
        for one in runs
    ]
    september, october = (branch.strip() for branch in listed[:2])
    changed = json.loads(sh("dvc", "params", "diff", september, october, "--json", cwd=toy.root))
    assert changed["params.yaml"] == {"data.as_of": {"old": "2026-09-30", "new": "2026-10-31"}}
    counted = json.loads(sh("dvc", "metrics", "diff", september, october, "--all", "--json", cwd=toy.root))
    assert counted["metrics/evaluate.json"]["accuracy"]
    assert run(as_of="2026-09-31").state.is_failed()
