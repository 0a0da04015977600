import os
import signal
import threading

import pytest

from stages.train.devices import create_accelerator
from stages.train.interruption import Coordinator, Interruption, TrainingInterrupted, recorded_signals
from tests.stages.train import tiny_task


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_signal_is_recorded_and_does_not_end_the_process(number):
    before = signal.getsignal(number)
    with recorded_signals() as received:
        assert received.signal is None
        os.kill(os.getpid(), number)
        os.kill(os.getpid(), number)  # a launcher that forwards signals may deliver one twice
        assert received.signal == number.name
    assert signal.getsignal(number) == before


def test_training_in_another_thread_leaves_the_signal_handlers_alone():
    """Python refuses to set them there; a notebook may train in a thread."""
    handlers = []

    def train():
        with recorded_signals():
            handlers.append(signal.getsignal(signal.SIGTERM))

    thread = threading.Thread(target=train)
    thread.start()
    thread.join()
    assert handlers == [signal.getsignal(signal.SIGTERM)]


def test_check_interruption_stops_after_a_signal_only(project, accelerated):
    received = Interruption()
    checked = Coordinator(create_accelerator(tiny_task.params()), received)
    checked.check_interruption()
    received.signal = "SIGTERM"
    with pytest.raises(TrainingInterrupted, match="interrupted by SIGTERM"):
        checked.check_interruption()
