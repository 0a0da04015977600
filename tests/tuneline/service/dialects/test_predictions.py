"""The service's own dialect, against the classifier that programs use."""

from dataclasses import asdict

import numpy as np
import pytest

from tests.small_pipeline import WORDS
from tuneline import TextClassifier

PAIR = ["the parcel", "is late again, my refund was fine"]


def unlisted(value):
    """Return a prediction as JSON has it."""
    return list(value) if isinstance(value, tuple) else value


def test_predictions_have_everything_that_a_program_gets(pairs, pair_folder):
    model = TextClassifier.load(pair_folder, threads=1)
    rows = [PAIR, {"subject": "refund", "body": "fine", "more": 1}, ["the", " ".join(WORDS * 3)]]
    answer = pairs.post("/v1/predictions", {"rows": rows})
    assert answer.headers["tuneline-version"] == answer.json()["version"] == model.version
    expected = model.predict([tuple(PAIR), ("refund", "fine"), tuple(rows[2])])
    for got, prediction in zip(answer.json()["predictions"], expected, strict=True):
        wanted = {name: unlisted(value) for name, value in asdict(prediction).items()}
        assert got.keys() == wanted.keys()
        scores = got.pop("scores")
        assert list(scores) == list(wanted["scores"])
        np.testing.assert_allclose(list(scores.values()), list(wanted.pop("scores").values()), atol=1e-6)
        assert got.pop("probability") == pytest.approx(wanted.pop("probability"), abs=1e-6)
        assert got == wanted
    assert [row["truncated"] for row in answer.json()["predictions"]] == [False, False, True]


@pytest.mark.parametrize(
    ("path", "body", "status", "named"),
    [
        ("/v1/predictions", {"row": PAIR}, 400, '"rows"'),
        ("/v1/predictions", {"rows": "late"}, 400, '"rows"'),
        ("/v1/predictions", [PAIR], 400, '"rows"'),
        ("/v1/predictions", {"rows": []}, 400, "no row"),
        ("/v1/predictions", {"rows": [PAIR, ["late"]]}, 422, "row 1"),
        ("/v1/predictions", {"rows": [PAIR, [1, "late"]]}, 422, "subject"),
        ("/v1/why", {"rows": [PAIR]}, 400, '"row"'),
        ("/v1/why", {"row": ["  ", "\n"]}, 422, "row 0"),
        ("/v1/why", {"row": ["late", "x" * 10_000]}, 413, "10,004"),
    ],
)
def test_body_that_is_no_request_is_refused(pairs, path, body, status, named):
    answer = pairs.post(path, body)
    assert answer.status_code == status
    assert named in answer.json()["error"]
