import os
import signal

import pytest

from tuneline.training.interruption import recorded_signals


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_signal_is_recorded_and_does_not_end_the_process(number):
    before = signal.getsignal(number)
    with recorded_signals() as received:
        assert received.signal is None
        os.kill(os.getpid(), number)
        os.kill(os.getpid(), number)  # a launcher that forwards signals may deliver one twice
        assert received.signal == number.name
    assert signal.getsignal(number) == before
