from datetime import timedelta

from flows.server.automations import LONGEST_RUN
from flows.settings import load_settings
from tests.conftest import ROOT

STAGES = ("download", "tokenize", "validate", "train", "evaluate", "export", "compare")


def test_longest_possible_run_is_restarted_after_a_crash():
    settings = load_settings(ROOT)
    assert timedelta(minutes=sum(settings.policy(stage).timeout_minutes for stage in STAGES)) < LONGEST_RUN
