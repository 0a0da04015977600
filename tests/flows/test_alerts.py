"""Events and problems that are repeated: the record of the last one."""

import json
import math
import time

import pytest

from flows.alerts import ended_again, hours_since_event
from tests.faults.truncation import damages


def test_damaged_record_of_events_means_that_none_was_sent(tmp_path):
    record = tmp_path / "record.json"
    assert hours_since_event(record, "v0.1.0") == math.inf
    record.write_text(json.dumps({"v0.1.0": time.time() - 3600}))
    assert hours_since_event(record, "v0.1.0") == pytest.approx(1, abs=0.1)
    assert hours_since_event(record, "v0.2.0") == math.inf
    for damage in damages(record):
        assert hours_since_event(record, "v0.1.0") == math.inf, damage
    for content in ("[]", "null", '{"v0.1.0": "yesterday"}'):
        record.write_text(content)
        assert hours_since_event(record, "v0.1.0") == math.inf


def test_problem_makes_one_run_fail_and_then_one_in_every_so_many_hours(tmp_path):
    record = tmp_path / "problems.json"

    def fails(*problems: str, hours: float = 24) -> bool:
        state = ended_again(record, hours, "3 rows", problems, "Ended")
        assert state.message == "\n".join(["3 rows", *problems]), "each run lists them"
        return state.is_failed()

    assert fails("a.csv")
    assert not fails("a.csv")
    assert fails("a.csv", "b.csv"), "a new one"
    assert not fails("b.csv")
    assert fails("b.csv", hours=0)
    assert not fails()
    assert fails("b.csv"), "it was corrected, and is bad again"
