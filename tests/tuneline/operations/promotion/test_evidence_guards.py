"""A model that wins on average and loses a group is stopped."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.params import write_params
from tuneline.core.settings import PromotionPolicy
from tuneline.judge.metrics.predictions import Predictions
from tuneline.model.tasks import Classification
from tuneline.operations.criteria import Criterion
from tuneline.operations.promotion.evidence import PairedPredictions, check_guards
from tuneline.operations.promotion.gate import decide_promotion

NAMES = Classification(("no", "yes"))
ROWS = 1000
CUSTOMERS = np.where(np.arange(ROWS) % 10 == 0, "acme", np.where(np.arange(ROWS) % 2, "bolt", "core"))
"""A tenth of the rows are of one customer."""


DATA = {"source": "files", "path": "tickets", "text_columns": ["text"], "label_column": "queue"}


@pytest.fixture
def checkout(tmp_path) -> Path:
    """A project of files with a column that says whose rows they are, in another order than the raw split."""
    write_params(tmp_path, data=DATA)
    labels = np.arange(ROWS) // 7 % 2
    texts = [f"ticket {row} of somebody" for row in range(ROWS)]
    source = tmp_path / "data/source/tickets"
    source.mkdir(parents=True)
    lines = [f"{texts[row]},{NAMES.names[labels[row]]},{CUSTOMERS[row]}" for row in range(ROWS)]
    (source / "train.csv").write_text("\n".join(["text,queue,customer", *lines[:400]]) + "\n")
    (source / "test.csv").write_text("\n".join(["text,queue,customer", *reversed(lines[400:])]) + "\n")
    raw = tmp_path / "data/raw"
    raw.mkdir()
    pq.write_table(pa.table({"text": texts, "labels": labels, "idx": range(ROWS)}), raw / "test.parquet")
    return tmp_path


def check_slices(checkout: Path, rows: PairedPredictions, margins: dict[str, float]) -> list[Criterion]:
    return check_guards(checkout, rows, margins)


def models(wins: int, losses_of_acme: int) -> PairedPredictions:
    """Production is wrong on some rows of other customers, the candidate on some of acme."""
    labels = np.arange(ROWS) // 7 % 2
    candidate, production = labels.copy(), labels.copy()
    candidate[np.flatnonzero(CUSTOMERS == "acme")[:losses_of_acme]] ^= 1
    production[np.flatnonzero(CUSTOMERS != "acme")[:wins]] ^= 1
    return PairedPredictions(Predictions(labels, candidate, NAMES), production)


@pytest.mark.parametrize("key", ["customer: acme", "customer"])
def test_model_that_wins_on_average_and_loses_a_customer_is_stopped(checkout, key):
    predictions = models(wins=120, losses_of_acme=20)
    policy = PromotionPolicy()
    assert decide_promotion(predictions, (), policy).promoted, "without the slices"
    criteria = check_slices(checkout, predictions, {key: 0.02})
    decision = decide_promotion(predictions, criteria, policy)
    assert not decision.promoted
    assert "customer 'acme' loses 0.2000 accuracy (1.0000 to 0.8000 on 100 rows)" in decision.reason


def test_loss_within_margin_or_chance_stops_nothing(checkout):
    within_margin = check_slices(checkout, models(120, 20), {"customer: acme": 0.25})
    by_chance = check_slices(checkout, models(120, 3), {"customer": 0.02})
    assert [guard.met for guard in (*within_margin, *by_chance)] == [True, True]
    assert by_chance[0].value == "none of 3 loses more"


def test_more_slices_need_more_evidence(checkout):
    """Five lost rows are p = 0.03: enough for one slice, not for three."""
    rows = models(120, 5)
    assert not check_slices(checkout, rows, {"customer: acme": 0.0})[0].met
    assert check_slices(checkout, rows, {"customer": 0.0})[0].met


def test_copies_in_a_slice_count_once(checkout):
    rows = models(120, 20)
    copies = np.arange(ROWS)
    copies[CUSTOMERS == "acme"] = 0  # all of one text
    assert check_slices(
        checkout, replace(rows, candidate=replace(rows.candidate, clusters=copies)), {"customer: acme": 0.02}
    )[0].met


def test_column_is_found_in_a_folder_that_is_named_from_the_root(checkout):
    write_params(checkout, data=DATA | {"path": "data/source/tickets"})
    assert check_slices(checkout, models(wins=10, losses_of_acme=0), {"customer": 0.02})[0].met


def test_group_without_rows_is_not_known_to_be_kept(checkout):
    guard = check_slices(checkout, models(10, 0), {"customer: nobody": 0.02})[0]
    assert (guard.met, guard.value) == (False, "no rows of it in the split")


def test_classes_are_slices(checkout):
    labels = np.arange(ROWS) % 2
    candidate = np.where((labels == 1) & (np.arange(ROWS) < 60), 0, labels)
    rows = PairedPredictions(Predictions(labels, candidate, NAMES), labels)
    guard = check_slices(checkout, rows, {"label": 0.01})[0]
    assert not guard.met
    assert guard.value.startswith("label 'yes' loses 0.0600 accuracy")
    assert check_slices(checkout, rows, {"label: no": 0.01})[0].met
