"""Texts of late labels, from what flow ``score`` leaves behind."""

import pyarrow as pa
import pytest

from flows.score import score
from tests.flows.conftest import UNLIKE, tickets
from tests.params import write_params
from tuneline.predict.scored import find_texts

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]


def test_scored_texts_are_found_by_their_ids(served, toy, promoted, put):
    texts = [*tickets(20), *tickets(3, greeting=UNLIKE)]
    put("mail.csv", [f"{number},{text}" for number, text in enumerate(texts)], column="id,text")
    put("without-id.jsonl", ['{"text": "please help w1"}'], column='{"text": "please help w2"}')
    state = score(return_state=True)
    assert state.is_completed(), state.message

    write_params(toy.root, data={"source": "files", "text_columns": ["text"], "label_column": "queue"})
    found = find_texts(toy.root, toy.root / "data/scored", "id", pa.array(["21", "7", "nobody's"]))
    assert found.to_pylist() == [{"id": "21", "text": texts[21]}, {"id": "7", "text": texts[7]}]
