"""What the report says about answers that can be relied on."""

import json
import shutil

import numpy as np
import pytest

from tests.exported_pipeline import published_pipeline
from tuneline.core.hashes import file_hash
from tuneline.decisions.evidence import Evidence, JudgedAnswers, write_evidence
from tuneline.results.page import read_promises


@pytest.fixture
def project(tmp_path_factory, tmp_path):
    return shutil.copytree(published_pipeline(tmp_path_factory, "classification"), tmp_path / "project")


def give_evidence(project, rows: int) -> None:
    """Give the model evidence: answers are wrong where its confidence is below 0.2."""
    confidence = np.random.default_rng(0).random(rows)
    judged = JudgedAnswers(np.zeros(rows, np.int32), confidence, confidence > 0.2)
    path = project / "models/onnx/evidence.parquet"
    write_evidence(path, {"fp32": Evidence(judged, judged)})
    export = project / "models/onnx/export.json"
    record = json.loads(export.read_text()) | {"evidence": file_hash(path)}
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
