from tests.tuneline.operations.promotion.test_error_budget import budget_of, entry
from tuneline.operations.promotion.error_budget import as_message, parse_messages


def test_entry_survives_the_message_of_its_commit():
    decision = entry(budget_of([]), 1.5)
    message = as_message(decision)
    assert message.startswith("Rejected: compared with v0.1.0 on a")
    assert parse_messages([message, "not of the gate", ""]) == [decision]
