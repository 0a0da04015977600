import logging

import flows


def test_control_characters_in_a_message_of_the_log_are_shown_as_codes(caplog):
    """Prefect prints messages, and keeps them for the UI and ``prefect flow-run logs``."""
    assert logging.getLogRecordFactory() is flows.VisibleRecord
    logging.getLogger("tuneline").warning("Commit %s of %s", "abc", "\x1b[2J\u202e")
    assert caplog.messages[-1:] == [r"Commit abc of \x1b[2J\u202e"]
