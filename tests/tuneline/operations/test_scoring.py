"""What is counted of scored rows. What goes wrong is in tests/faults/test_scoring.py, the flow in
tests/flows/test_score.py."""

import json
import shutil

import pyarrow.parquet as pq
import pytest

from tests.faults.test_scoring import outbox, put, score, toy_model  # noqa: F401 - three are fixtures
from tests.flows.conftest import tickets
from tests.flows.toy.toy import QUEUES
from tuneline.core.settings import DriftLimits
from tuneline.operations.drift import drift_criteria
from tuneline.operations.inbox import scored_record


@pytest.mark.parametrize("abstain", [None, 1e-6])
def test_labels_that_costs_choose_or_withhold_are_no_drift(toy_model, outbox, put, tmp_path, abstain):  # noqa: F811
    costly = shutil.copytree(toy_model, tmp_path / "costly")
    record = json.loads((costly / "models/onnx/export.json").read_text())
    errors = {right: {answer: 1.0 for answer in QUEUES if answer != right} for right in QUEUES}
    errors["other"] = {answer: 1000.0 for answer in QUEUES if answer != "other"}
    record["models"]["fp32"]["costs"] = {"errors": errors, "abstain": abstain}
    (costly / "models/onnx/export.json").write_text(json.dumps(record))

    counts = []
    for model in (toy_model, costly):
        scorer = score(outbox, model, put("a.csv", tickets(400)))
        assert not scorer.problems
        counts.append(scored_record(outbox.folder / f"a.csv{'.2' * len(counts)}.parquet").seen)
    answers = set(pq.read_table(outbox.folder / "a.csv.2.parquet")["label"].to_pylist())
    assert answers == ({"other"} if abstain is None else {None})
    assert counts[1].labels == counts[0].labels
    assert all(criterion.met for criterion in drift_criteria(scorer.profile, counts[1], DriftLimits()))
