"""The benchmark of quality: what it draws, scores and keeps, without a checkpoint."""

from pathlib import Path

import numpy as np
import pytest

from benchmarks.quality.data_sets import DataSet, SkippedError, classes_of
from benchmarks.quality.results import Results, Run
from benchmarks.quality.rivals import predictions, tfidf
from tuneline.model.tasks import Multilabel


def rows_of_two_classes(rows: int, start: int = 0):
    """Return rows whose word tells their class, and whose text no other row has."""
    words = {"hot": "sun", "cold": "snow"}
    return [((f"{words[name]} {start + row}",), name) for row in range(rows) for name in words]


@pytest.fixture
def data():
    pool = rows_of_two_classes(100)
    return DataSet(classes_of(pool), pool, rows_of_two_classes(30, start=1_000), ("accuracy",))


def test_sample_draws_other_rows_for_validation_and_other_rows_by_seed(data):
    sample = data.sample(120, seed=0)
    train = set(sample.train.columns[0])

    assert (len(train), len(sample.validation.labels)) == (120, 40), "an eighth would be 15"
    assert not train & set(sample.validation.columns[0])
    assert train == set(data.sample(120, seed=0).train.columns[0])
    assert train != set(data.sample(120, seed=1).train.columns[0])


def test_sample_of_too_many_rows_is_skipped(data):
    with pytest.raises(SkippedError, match="200"):
        data.sample(180, seed=0)


def test_tfidf_learns_words_that_tell_the_class(data):
    sample = data.sample(120, seed=0)
    model = tfidf(sample, Path())
    assert np.array_equal(predictions(sample, model, sample.fresh), sample.fresh.labels)


def test_predictions_of_several_labels_have_thresholds_of_validation():
    rows = [((f"{'sun ' * (row % 2)}{row}",), ["hot"] * (row % 2)) for row in range(200)]
    data = DataSet(Multilabel(("hot",)), rows, rows, ("macro_f1",))
    sample = data.sample(100, seed=0)

    def timid(split):
        """Return logits far below those of a probability of one half."""
        return np.where(split.labels == 1, -4.0, -6.0)

    assert np.array_equal(predictions(sample, timid, sample.fresh), sample.fresh.labels)


def test_results_resume_and_compare_with_the_best_rival(tmp_path, capsys):
    labels = np.zeros(100, np.int64)
    results = Results(tmp_path)
    right = {"tfidf": 50, "frozen": 70, "tuneline": 90}
    for seed in (0, 1):
        for model, rows in right.items():
            predicted = (np.arange(100) >= rows).astype(np.int64)
            run = Run("weather", 100, seed, model)
            results.append(run, {"accuracy": rows / 100}, 1.0, labels, predicted)

    assert Results(tmp_path).has(Run("weather", 100, 1, "frozen")), "another process sees it"
    assert not results.has(Run("weather", 100, 2, "frozen"))
    (comparison,) = results.comparisons("tuneline")
    assert (comparison.best_rival, comparison.score("frozen")) == ("frozen", 0.7)
    capsys.readouterr()
    results.show("tuneline")
    assert "frozen: +0.200" in capsys.readouterr().out
