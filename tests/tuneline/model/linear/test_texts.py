import warnings

import numpy as np
import pyarrow as pa
import pytest
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.linear_model import LogisticRegression

from tests.stages.tokenize.raw_splits import NO_YES
from tuneline.model.linear.texts import TfidfModel, out_of_fold
from tuneline.model.tasks import Classification, Regression
from tuneline.model.tasks.columns import label_type

NUMBERS = Regression()
CLASSES = {2: NO_YES, 4: Classification(("a", "b", "c", "d"))}
WORDS = [f"word{number}" for number in range(200)]


def topical(rows, seed):
    """Return texts whose class is one of their words, in nine of ten rows."""
    random = np.random.default_rng(seed)
    labels = random.integers(2, size=rows)
    named = np.where(random.random(rows) < 0.9, labels, 1 - labels)
    return [" ".join([*random.choice(WORDS, 12), ("good", "bad")[label]]) for label in named], labels


def sample(texts, labels, schema=NO_YES):
    """Return rows as ``read_sample`` does."""
    columns = dict(zip(("subject", "body"), texts, strict=False))
    return pa.table({**columns, "labels": pa.array(labels, label_type(schema))})


def predicted_by(train, texts, schema):
    return TfidfModel.fit(train, schema).predict(texts)


def test_predictions_of_one_text_equal_those_of_scikit_learn():
    (train, labels), (test, truth) = topical(300, 0), topical(300, 1)
    predicted = predicted_by(sample([train], labels), [test], NO_YES)
    vectorizer = TfidfVectorizer(ngram_range=(1, 2), sublinear_tf=True, min_df=2)
    model = LogisticRegression(C=10.0).fit(vectorizer.fit_transform(train), labels)
    np.testing.assert_array_equal(predicted, model.predict(vectorizer.transform(test)))
    assert predicted.dtype == np.int64
    assert 0.8 < (predicted == truth).mean() < 1


def test_pair_of_texts_is_judged_by_what_they_share():
    """No word tells the classes apart: a row is of class 1 if its texts are the same words."""
    random = np.random.default_rng(0)
    first = [" ".join(random.choice(WORDS, 8)) for _ in range(600)]
    same = random.integers(2, size=600)
    second = [" ".join(reversed(first[row - 1 + label].split())) for row, label in enumerate(same)]
    predicted = predicted_by(
        sample([first[:400], second[:400]], same[:400]), [first[400:], second[400:]], NO_YES
    )
    assert (predicted == same[400:]).mean() > 0.95


def test_numbers_are_predicted_by_ridge_regression():
    texts, labels = topical(400, 0)
    predicted = predicted_by(sample([texts[:300]], labels[:300], NUMBERS), [texts[300:]], NUMBERS)
    assert predicted.dtype == np.float32
    assert np.corrcoef(predicted, labels[300:])[0, 1] > 0.6


@pytest.mark.parametrize("schema", [NO_YES, NUMBERS])
@pytest.mark.parametrize(
    ("texts", "labels"),
    [
        (["a b", "a c", "a b"], [1, 1, 1]),
        (["alone"], [1]),
    ],
    ids=["one label", "one row"],
)
def test_nothing_to_learn_from_gives_the_majority_or_the_mean(texts, labels, schema):
    expected = np.mean(labels) if schema is NUMBERS else 1
    with warnings.catch_warnings(action="error"):
        predicted = predicted_by(sample([texts], labels, schema), [["anything", ""]], schema)
    assert predicted.tolist() == pytest.approx([expected, expected])


def test_characters_are_words_in_scripts_without_spaces():
    good, bad = (
        ["这家店真好吃啊", "味道真好下次来", "服务真好很满意"] * 5,
        ["这家店太差了呀", "味道太差不再来", "服务太差很生气"] * 5,
    )
    predicted = predicted_by(sample([good + bad], [1] * 15 + [0] * 15), [["环境真好", "环境太差"]], NO_YES)
    assert predicted.tolist() == [1, 0]


def test_second_training_gives_the_same_predictions_and_no_warning():
    texts, labels = topical(300, 0)
    with warnings.catch_warnings(action="error"):
        runs = [
            predicted_by(sample([texts], labels / 3, NUMBERS), [texts], NUMBERS).tobytes() for _ in range(2)
        ]
    assert runs[0] == runs[1]


def test_out_of_fold_probabilities_come_from_models_that_have_not_seen_the_text():
    """A label that only its own text gives away cannot be predicted: each text is there twice, with words of
    its own, and the labels are random."""
    texts, labels = topical(400, 0)
    probabilities = out_of_fold([texts], labels, CLASSES[2], seed=1)
    np.testing.assert_allclose(probabilities.sum(axis=1), 1)
    assert 0.8 < (probabilities.argmax(axis=1) == labels).mean() < 1
    np.testing.assert_array_equal(probabilities, out_of_fold([texts], labels, CLASSES[2], seed=1))
    random = np.repeat(np.random.default_rng(1).integers(2, size=200), 2)
    twice = np.repeat(texts[:200], 2).tolist()
    assert (out_of_fold([twice], random, CLASSES[2], seed=1).argmax(axis=1) == random).mean() < 0.6
