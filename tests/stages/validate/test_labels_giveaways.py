import numpy as np
import pyarrow as pa
import pytest

from stages.validate.labels import Criterion, first_numbers, revealing_numbers, revealing_words, word_features

LABELS = np.array([0, 1] * 200)


def words_found(texts, labels=LABELS, classes=2):
    features = word_features([pa.array(texts)], 100_000)
    return revealing_words(features, np.ones(len(texts), dtype=bool), labels, classes, 0.85)


def random_texts(seed=0, rows=400):
    random = np.random.default_rng(seed)
    return [" ".join(f"word{number}" for number in random.zipf(1.3, 30)) for _ in range(rows)]


def test_label_in_the_text_is_named_with_precision_and_coverage():
    texts = [
        f"{text} label_{('ham', 'spam')[label]}" if row % 5 else text
        for row, (text, label) in enumerate(zip(random_texts(), LABELS, strict=True))
    ]
    found = words_found(texts)
    assert {giveaway.name for giveaway in found} >= {"“ham”", "“spam”", "“spam” at the end"}
    assert found[0].coverage == 0.8
    sentence = next(giveaway for giveaway in found if giveaway.name == "“spam”").sentence(["ham", "spam"])
    assert (
        sentence
        == "“spam”: 80 % of spam have it, and of the 160 rows that have it, 100 % are spam (95 % interval"
        " 97.7 to 100 %)."
    )


def test_words_of_random_labels_reveal_nothing():
    """Tens of thousands of words, of which many are in rows of one label only."""
    for seed in range(3):
        labels = np.random.default_rng(seed).choice(5, size=400, p=[0.8, 0.1, 0.05, 0.04, 0.01])
        assert words_found(random_texts(seed), labels, 5) == []


@pytest.mark.parametrize("share", [0.02, 0.5, 0.9, 0.99])
def test_no_word_meets_the_criterion_by_chance(share):
    """The fewest rows that meet it, all with the label, are that improbable."""
    counts = np.array([round(10_000 * share), round(10_000 * (1 - share))])
    criterion = Criterion(counts, 0.85, total=10_000)
    rows = next(rows for rows in range(1, 10_000) if criterion.apply("", 0, rows, rows))
    assert share**rows < 1e-11


def test_words_of_other_splits_do_not_count():
    features, labels = (
        word_features([pa.array(["spam"] * 8000)], 10),
        np.r_[LABELS, np.ones(7600, dtype=np.int64)],
    )
    assert revealing_words(features, np.arange(8000) < 400, labels, 2, 0.85) == []


def test_number_reveals_a_label_by_any_of_its_ranges():
    random = np.random.default_rng(0)
    lengths = random.integers(100, 200, size=400) + np.where(
        LABELS == 1, random.choice([-90, 300], size=400), 0
    )
    long_or_short, middle = sorted(
        revealing_numbers("length", lengths.astype(float), LABELS, 2, 0.85),
        key=lambda giveaway: -giveaway.label,
    )
    assert (long_or_short.label, middle.label) == (1, 0)
    assert min(long_or_short.coverage, middle.coverage) > 0.7
    assert long_or_short.name.startswith("length from 10 to 4")
    assert revealing_numbers("length", random.permutation(lengths).astype(float), LABELS, 2, 0.85) == []
    assert revealing_numbers("length", np.full(400, np.nan), LABELS, 2, 0.85) == []


def test_first_number_of_a_row_is_a_number_a_date_or_an_id():
    texts = ["on 2026-11-05 10:15, 3 times", "INC0042", "none", "", "9" * 400]
    numbers = first_numbers([pa.array(texts), pa.array(["7", "", "no", "1,234.5", ""])])
    np.testing.assert_array_equal(numbers, [20261105, 42, np.nan, 12345, 999999999999999])
