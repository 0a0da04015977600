"""``TextClassifier.predict``: rows as programs have them, and the answers of the command."""

import json
import shutil
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.exported_pipeline import published_pipeline
from tests.small_pipeline import WORDS
from tuneline import TextClassifier
from tuneline.core.runtime.errors import DataError
from tuneline.judge.decisions.rule import AnswerRule
from tuneline.rows.reading.formats import FORMATS
from tuneline.rows.reading.rows import BadRowPolicy
from tuneline.serve.columns import InputColumns
from tuneline.serve.streaming import StreamOptions, predict_input
from tuneline.serve.writing import PredictionOutput

TEXTS = st.lists(st.sampled_from(WORDS), min_size=1, max_size=40).map(" ".join)
PAIRS = st.lists(st.tuples(TEXTS, TEXTS), min_size=1, max_size=70)
"""As many as several windows of the command have."""


@pytest.fixture(scope="module")
def deployed(tmp_path_factory):
    return TextClassifier.load(
        published_pipeline(tmp_path_factory, "classification") / "models/onnx", threads=1
    )


@pytest.fixture(scope="module")
def int8(tmp_path_factory):
    folder = published_pipeline(tmp_path_factory, "classification") / "models/onnx"
    return TextClassifier.load(folder, "int8", threads=1)


@settings(max_examples=6)
@given(pairs=PAIRS, batch_size=st.sampled_from([1, 4, 32]))
@pytest.mark.parametrize("precision", ["deployed", "int8"])
def test_predictions_are_those_of_the_command_to_the_last_digit(
    request, tmp_path_factory, precision, pairs, batch_size
):
    """int8 and padding make the digits of a row depend on its batch, so that the batches must be the same."""
    model = request.getfixturevalue(precision)
    folder = tmp_path_factory.mktemp("predicted")
    file = folder / "in.jsonl"
    file.write_text("".join(json.dumps({"subject": a, "body": b}) + "\n" for a, b in pairs))
    source = FORMATS["jsonl"].usual(file)
    options = StreamOptions(batch_size, BadRowPolicy(), rule=model.rule)
    columns = InputColumns(("subject", "body"), ())
    predict_input(model, source, columns, PredictionOutput(folder / "out.jsonl", "jsonl"), options)
    expected = [json.loads(line) for line in (folder / "out.jsonl").read_text().splitlines()]

    predictions = model.predict(pairs, batch_size)
    assert [row["label"] for row in expected] == [row.label for row in predictions]
    rounded = [{name: round(value, 6) for name, value in row.scores.items()} for row in predictions]
    assert [row["probabilities"] for row in expected] == rounded


def test_all_forms_of_rows_have_the_same_predictions(deployed):
    pairs = [("parcel missing", "it never came"), ("invoice", "")]
    records = [{"subject": subject, "body": body, "more": 1} for subject, body in pairs]
    table = pd.DataFrame(records)
    expected = deployed.predict(pairs)
    assert deployed.predict(iter(pairs)) == expected
    assert deployed.predict(records) == expected
    assert deployed.predict(table) == expected
    assert deployed.predict(pa.Table.from_pandas(table)) == expected
    assert deployed.predict_one(pairs[0]) == deployed.predict(pairs[:1])[0]
    assert deployed.predict([]) == []


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ([("a", "b"), ("a",)], r"rows\[1\]: 1 text, but the model reads 2"),
        ([("a", None)], r"rows\[0\]: column 'body' is null, not text"),
        ([(" ", "\t")], r"rows\[0\]: column 'subject' and 'body': no text, or only white space"),
        ([("a", "\udfff")], r"rows\[0\]: column 'body' has an unpaired surrogate"),
        ([{"subject": "a"}], r"rows\[0\]: no column 'body'"),
        (pd.DataFrame({"subject": ["a"]}), "the table has 0 columns 'body'"),
        ("a text", "str: not several rows"),
        ({"subject": "a", "body": "b"}, "dict: not several rows"),
    ],
)
def test_row_that_is_none_is_named(deployed, rows, message):
    with pytest.raises(DataError, match=message):
        deployed.predict(rows)


def test_long_row_is_marked_alone(deployed):
    short = ("parcel", "came")
    long = ("parcel " * 600, "came")
    assert [row.truncated for row in deployed.predict([short, long, short])] == [False, True, False]


def test_row_without_an_answer_has_a_reason_and_no_label(deployed):
    unsure = replace(deployed, rule=AnswerRule(threshold=0.9999999))
    prediction = unsure.predict_one(("parcel", "came"))
    assert prediction.abstained
    assert prediction.label is None
    assert "is not above" in prediction.reason
    assert prediction.scores == deployed.predict_one(("parcel", "came")).scores


def test_threads_share_a_model(deployed):
    pairs = [(word, other) for word in WORDS for other in WORDS[:5]]
    expected = [deployed.predict_one(pair) for pair in pairs]
    with ThreadPoolExecutor(8) as threads:
        assert list(threads.map(deployed.predict_one, pairs)) == expected


def test_version_is_another_one_for_another_file_or_other_decisions(tmp_path_factory, tmp_path):
    folder = published_pipeline(tmp_path_factory, "classification") / "models/onnx"
    versions = [TextClassifier.load(folder).version, TextClassifier.load(folder, "int8").version]
    assert TextClassifier.load(folder).predict_one(("a", "b")).version == versions[0]

    copy = shutil.copytree(folder, tmp_path / "onnx")
    assert TextClassifier.load(copy).version == versions[0]
    record = json.loads((copy / "export.json").read_text())
    record["models"]["fp32"]["decisions"] = {"temperature": 2.5}
    (copy / "export.json").write_text(json.dumps(record))
    versions.append(TextClassifier.load(copy).version)
    assert len(set(versions)) == 3
