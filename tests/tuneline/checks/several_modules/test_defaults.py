"""Known data passes with the default thresholds: the sample tickets, MRPC, and data similar to SST-2."""

import pytest
from tokenizers import Tokenizer

from tests.tuneline.checks.data import Data, params_for, tokenizer_of
from tuneline.checks.expectations import check_tables
from tuneline.checks.tables import derive_tables
from tuneline.core.paths import SPLITS
from tuneline.model.tasks import Classification, task_with_names
from tuneline.rows.splits.sample import QUEUES, write_tickets


def errors_and_warnings(data: Data, folder) -> tuple[set[str], set[str]]:
    results = check_tables(derive_tables(data.params, data.write(folder / "data"), None))
    return {error.check for error in results.errors}, {warning.check for warning in results.warnings}


def test_sample_tickets_pass_without_warning(tmp_path):
    tickets = list(write_tickets(2000, 0.03, 42))
    raw = {
        split: {
            "subject": [ticket.subject for ticket in tickets[start:stop]],
            "body": [ticket.body for ticket in tickets[start:stop]],
            "labels": [QUEUES.index(ticket.queue) for ticket in tickets[start:stop]],
        }
        for split, start, stop in (("train", 0, 1600), ("validation", 1600, 1800), ("test", 1800, 2000))
    }
    words = sorted(
        {word for ticket in tickets[:1600] for text in ticket[:2] for word in text.lower().split()}
    )
    data = Data(
        ("subject", "body"),
        task_with_names(tuple(QUEUES)),
        params_for(("subject", "body")),
        raw,
        tokenizer_of(words),
    )
    data.set_params(lambda values: values["tokenize"].update(max_length=128))
    assert errors_and_warnings(data.tokenize(), tmp_path) == (set(), set())


@pytest.mark.real_data
def test_mrpc_passes_without_warning(shared, tmp_path):
    columns = ("sentence1", "sentence2")
    raw = {}
    for split in SPLITS:
        lines = (shared / "data/mrpc" / f"{split}.tsv").read_text(encoding="utf-8-sig").splitlines()[1:]
        rows = [line.split("\t") for line in lines]
        raw[split] = {
            "sentence1": [row[3] for row in rows],
            "sentence2": [row[4] for row in rows],
            "labels": [int(row[0]) for row in rows],
        }
    assert [len(raw[split]["labels"]) for split in SPLITS] == [3668, 408, 1725]
    tokenizer = Tokenizer.from_file(str(shared / "hub/models/google-bert/bert-base-uncased/tokenizer.json"))
    data = Data(
        columns, Classification(("not_equivalent", "equivalent")), params_for(columns), raw, tokenizer
    )
    data.set_params(lambda values: values["tokenize"].update(max_length=128))
    assert errors_and_warnings(data.tokenize(), tmp_path) == (set(), set())
