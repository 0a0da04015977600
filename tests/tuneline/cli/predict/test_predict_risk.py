"""``tuneline predict --risk``: rows that are too unsure get no answer, with a reason."""

import json
import shutil

import numpy as np
import pytest

from tests.small_pipeline import QUEUES
from tests.tuneline.cli.predict.conftest import lines_of
from tuneline.core.stage.records import file_hash
from tuneline.judge.decisions.evidence import Evidence, JudgedAnswers, write_evidence

ROWS = "".join(
    f'{{"subject": "{subject}", "body": "{body}"}}\n'
    for subject in ("the parcel", "a refund", "my password", "invoice", "hello")
    for body in ("is missing", "where is it", "twice", "broken screen", "please help me", "1", "no", "ok")
)


def rows_of_evidence(rows: int, threshold: float, low: float = 0.3, high: float = 1.0) -> JudgedAnswers:
    """Return answers that are right where the model is surer than a threshold, and else wrong."""
    random = np.random.default_rng(0)
    confidence = random.uniform(low, high, rows)
    answers = random.integers(0, len(QUEUES), rows).astype(np.int32)
    return JudgedAnswers(answers, confidence, confidence > threshold)


@pytest.fixture
def model(classification, tmp_path):
    """Return a copy of the model, and a function that gives it evidence."""
    folder = shutil.copytree(classification / "models/onnx", tmp_path / "model")

    def with_evidence(rows: int, threshold: float, low: float = 0.3, high: float = 1.0):
        path = folder / "evidence.parquet"
        judged = rows_of_evidence(rows, threshold, low, high)
        write_evidence(path, {"fp32": Evidence(judged, judged)})
        record = json.loads((folder / "export.json").read_text())
        record["evidence"] = file_hash(path)
        (folder / "export.json").write_text(json.dumps(record))
        return folder

    return with_evidence


def test_unsure_rows_get_no_answer_and_a_reason(predict, model):
    folder = model(1000, 0.0)
    plain = lines_of(predict("--input-format", "jsonl", given=ROWS.encode(), model=folder).stdout)
    confidences = [line["probability"] for line in plain]
    model(1000, float(np.median(confidences)), min(confidences), max(confidences))
    result = predict("--risk", "0.02", "--input-format", "jsonl", given=ROWS.encode(), model=folder)
    assert result.exit_code == 0, result.output
    lines = lines_of(result.stdout)
    abstained = [line for line in lines if line["abstained"]]
    assert 0 < len(abstained) < len(lines)
    for line in lines:
        if line["abstained"]:
            assert line["label"] is None
            assert f"confidence {line['probability']:.4f} is not above" in line["reason"]
        else:
            assert line["label"] == max(line["probabilities"], key=line["probabilities"].get)
            assert line["reason"] is None
    assert f"{len(abstained)} of 40 rows" in result.stderr
    assert "at most 2 % of the answers" in result.stderr
    assert "95 % certainty" in result.stderr


@pytest.mark.parametrize(
    ("rows", "threshold", "message"),
    [
        (80, 0.0, "2 % at 95 % needs at least 149 answered rows without an error; there are 80"),
        (1000, 1.0, "2 % at 95 % cannot be promised"),
    ],
)
def test_what_cannot_be_promised_is_refused_before_a_row_is_predicted(
    predict, model, rows, threshold, message
):
    result = predict(
        "--risk", "0.02", "--input-format", "jsonl", given=b"no json", model=model(rows, threshold)
    )
    assert result.exit_code == 1
    assert message in result.stderr
    assert "label more of the reported split" in result.stderr
    assert result.stdout == ""


def test_costs_leave_rows_without_an_answer_unless_it_is_to_be_plain(predict, model):
    folder = model(1000, 0.5)
    record = json.loads((folder / "export.json").read_text())
    errors = {right: {answer: 1.0 for answer in QUEUES if answer != right} for right in QUEUES}
    record["models"]["fp32"]["costs"] = {"errors": errors, "abstain": 0.01}
    (folder / "export.json").write_text(json.dumps(record))
    words = ("--input-format", "jsonl")
    heeded = lines_of(predict(*words, given=ROWS.encode(), model=folder).stdout)
    assert all(line["label"] is None and line["abstained"] for line in heeded)
    plain = lines_of(predict("--plain", *words, given=ROWS.encode(), model=folder).stdout)
    for line in plain:
        assert line["label"] == max(line["probabilities"], key=line["probabilities"].get)
        assert "abstained" not in line
    assert predict("--plain", "--risk", "0.1", *words, given=b"", model=folder).exit_code == 1


def test_evidence_of_another_model_is_refused(predict, model):
    folder = model(1000, 0.5)
    judged = rows_of_evidence(1000, 0.4)
    write_evidence(folder / "evidence.parquet", {"fp32": Evidence(judged, judged)})
    result = predict("--risk", "0.02", "--input-format", "jsonl", given=ROWS.encode(), model=folder)
    assert result.exit_code == 1
    assert "evidence.parquet is missing, damaged, or of other models" in result.stderr
