"""Flow ``train`` on the real line, made small: what the small pipeline cannot show.

Minutes, most of them imports.
"""

import json
import os
import time

import pytest

from flows.ingest import ingest
from flows.train import train
from tests.project import SMALL, Project
from tuneline.core.paths import SPLITS
from tuneline.core.stage.tables import read_table
from tuneline.operations.promotion.registry import Registry
from tuneline.operations.runs.repository import Repository

pytestmark = [pytest.mark.timeout(1200), pytest.mark.slow]

LEARNS = {"train.epochs": 6, "train.learning_rate": 3.0e-3}
"""Enough to be better than the majority: the gate rejects a model that is significantly worse."""
THIN_MARGINS = {"compare.int8.min_agreement": 0.5, "compare.int8.max_metric_drop": 0.5}
"""Quantization may flip more rows of a model that is hardly trained."""


@pytest.fixture
def project(tmp_path, monkeypatch) -> Project:
    project = Project.copy_to(tmp_path)
    project.set_params({**SMALL, **LEARNS, **THIN_MARGINS})
    (project.folder / "conf/flows.yaml").write_text("promotion: {min_gain: -0.5, min_rows: 50}\n")
    project.commit("A small line")
    monkeypatch.setenv("TUNELINE_REPOSITORY", str(project.folder))
    return project


def test_new_data_are_checked_against_productions_data(served, project):
    first = train(return_state=True)
    assert first.is_completed(), first.message
    registry = Registry(Repository(project.folder))
    promoted = registry.production()
    assert promoted is not None, first.message

    run = served.run(train(return_state=True).state_details.flow_run_id)
    assert served.tasks(run.id)["train"].state.name == "Restored", (
        "data that did not change are not trained on again"
    )
    branch = project.run(
        "git", "branch", "--list", f"runs/*-{run.name}", "--format=%(refname:short)"
    ).stdout.strip()
    profile = json.loads(project.run("git", "show", f"{branch}:data/reference/profile.json").stdout)
    assert profile["splits"]["train"]["rows"] > 100, "it is a profile"
    metrics = json.loads(project.run("git", "show", f"{branch}:metrics/validate.json").stdout)
    assert metrics["train_promoted_label_psi"] == 0

    # A third of the rows, which must be at least half by default.
    project.set_params({"data.sample.rows": 240, "validate.severity.promoted_rows": "error"})
    project.commit("Fewer rows")
    fewer = train(return_state=True)
    assert fewer.is_failed()
    assert "promoted_rows, train" in fewer.message
    assert registry.production() == promoted


def tickets(project: Project, name: str, numbers: range) -> None:
    """Write labelled rows, each with words of its class and some of its own."""
    queues = {"billing": "invoice amount", "delivery": "parcel late", "returns": "send back"}
    rows = [
        (f"ticket {one} about {queues[queue]}", queue) for one in numbers for queue in [list(queues)[one % 3]]
    ]
    path = project.folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(f"{text},{label}\n" for text, label in [("text", "label"), *rows]))
    os.utime(path, (time.time() - 60,) * 2)


def test_ingested_rows_never_move_a_row_of_the_test_split(served, tmp_path, monkeypatch):
    project = Project.copy_to(tmp_path)
    source = {"source": "files", "path": "tickets", "text_columns": ["text"], "label_column": "label"}
    split = {"validation": 0.2, "test": 0.2, "by": None, "stratify": False}
    data = {**source, "splits.train": "all", "split": split}
    project.set_params({**SMALL, **{f"data.{name}": value for name, value in data.items()}})
    (project.folder / "conf/flows.yaml").write_text(
        "ingest: {folder: data/labelled}\nscoring: {settle_seconds: 0}\n"
    )
    tickets(project, "data/source/tickets/all.csv", range(400))
    project.run("dvc", "add", "--quiet", "data/source/tickets")
    project.commit("My tickets")
    monkeypatch.setenv("TUNELINE_REPOSITORY", str(project.folder))

    def texts(split: str) -> set[str]:
        return set(read_table(project.folder / f"data/raw/{split}.parquet")["text"].to_pylist())

    project.run("dvc", "repro", "--quiet", "download")
    before = {split: texts(split) for split in SPLITS}
    tickets(project, "data/labelled/monday.csv", range(390, 500))
    state = ingest(return_state=True)
    assert state.is_completed(), state.message
    assert state.message.endswith(": 100 new, 10 duplicate")
    assert {"download", "tokenize", "validate"} <= set(served.tasks(state.state_details.flow_run_id))
    project.run("dvc", "repro", "--quiet", "download")
    after = {split: texts(split) for split in SPLITS}
    assert sum(map(len, after.values())) == 500
    for split in SPLITS:
        assert before[split] < after[split], f"no row left {split}, and new ones came"
