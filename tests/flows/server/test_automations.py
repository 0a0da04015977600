from datetime import timedelta

from flows.server.automations import LONGEST_RUN
from flows.settings import load_settings
from tests.conftest import ROOT

STAGES = ("download", "tokenize", "validate", "train", "evaluate", "export", "compare")


def test_a_run_that_uses_all_its_time_is_still_picked_up_when_it_crashes():
    settings = load_settings(ROOT)
    assert timedelta(minutes=sum(settings.policy(stage).timeout_minutes for stage in STAGES)) < LONGEST_RUN
