"""Events and problems that are repeated: the record of the last one."""

import json
import math
import time

import pytest

from flows.alerts import hours_since_event
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
