"""The rules on the exported models."""

from tests.model_comparisons import FIGURES
from tuneline.onnx.comparison_records import ComparisonRecord, ModelComparison
from tuneline.page.verdict.rules import exported_models

AGREEMENT = "agreement is 0.900 on 20 rows (95 % interval 0.683 to 0.988)"


def model(required=False, violations=(), unclear=()):
    return ModelComparison(
        **FIGURES, violations=violations, unclear=unclear, required=required, published=not violations
    )


def findings(**models):
    record = ComparisonRecord(
        split="test", rows=20, metric="accuracy", predictions="-", trained={"accuracy": 0.9}, models=models
    )
    return list(exported_models(record))


def test_rounded_model_that_was_left_out_is_a_warning_with_its_reasons():
    (finding,) = findings(fp32=model(required=True), int8=model(violations=[AGREEMENT]))
    assert (finding.code, finding.severity) == ("left_out", "warning")
    assert "int8" in finding.sentence
    assert AGREEMENT in finding.sentence
    assert "fp32 model is published" in finding.advice


def test_failed_fp32_is_no_published_model_whatever_int8_is():
    (finding,) = findings(
        fp32=model(required=True, violations=["no finite logits for row 0"]),
        int8=model(violations=[AGREEMENT]),
    )
    assert (finding.code, finding.severity) == ("nothing_published", "bad")
    assert "dvc checkout models/onnx" in finding.advice
