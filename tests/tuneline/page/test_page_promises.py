"""What the report says about answers that can be relied on."""

import json
import shutil

import numpy as np
import pytest

from tests.exported_pipeline import published_pipeline
from tuneline.core.stage.records import file_hash
from tuneline.judge.decisions.evidence import Evidence, JudgedAnswers, write_evidence
from tuneline.page.page import read_promises, read_report
from tuneline.page.rendering import render_card, render_report


@pytest.fixture
def project(tmp_path_factory, tmp_path):
    return shutil.copytree(published_pipeline(tmp_path_factory, "classification"), tmp_path / "project")


def give_evidence(project, rows: int, abstained: float | None = None) -> None:
    """Give the model evidence: answers are wrong where its confidence is below 0.2.

    ``abstained`` is the share of the reported rows that costs leave out; ``None``: there are no costs.
    """
    confidence = np.random.default_rng(0).random(rows)
    judged = JudgedAnswers(np.zeros(rows, np.int32), confidence, confidence > 0.2)
    path = project / "models/onnx/evidence.parquet"
    write_evidence(path, {"fp32": Evidence(judged, judged)})
    export = project / "models/onnx/export.json"
    record = json.loads(export.read_text()) | {"evidence": file_hash(path)}
    if abstained is not None:
        record["models"]["fp32"]["metrics"]["abstained"] = abstained
    export.write_text(json.dumps(record))


def test_promises_end_with_the_risk_at_which_every_row_is_answered(project):
    give_evidence(project, 2000)
    evidence, promised = read_promises(project)
    assert len(evidence.promising) == 2000
    risks = [promise.risk for promise in promised]
    assert risks[0] == 0.005
    assert risks == sorted(risks)
    assert all(promise.coverage < 1 for promise in promised[:-1])
    assert promised[0].coverage == pytest.approx(0.8, abs=0.03)


@pytest.mark.parametrize(("abstained", "is_said"), [(0.65, True), (None, False)])
def test_page_and_card_say_of_which_rows_a_share_is_that_costs_leave(project, abstained, is_said):
    give_evidence(project, 2000, abstained)
    report = read_report(project)
    for text in (render_report(report), render_card(report)):
        assert "% of the rows get one" in text
        assert ("leaves to be answered: 35 % of test" in text) == is_said
