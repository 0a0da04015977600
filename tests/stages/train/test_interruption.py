import os
import signal
import threading

import pytest

from stages.train import interruption
from stages.train.devices import create_accelerator
from stages.train.interruption import Coordinator, Interruption, TrainingInterrupted
from tests.stages.train import tiny_task


@pytest.fixture
def coordinator(project, accelerated):
    """Return a function that creates the coordinator of a run of one process."""
    return lambda interruption, minutes=None: Coordinator(
        create_accelerator(tiny_task.params()), interruption, minutes
    )


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_signal_is_recorded_and_does_not_end_the_process(number):
    with Interruption() as received:
        assert received.signal is None
        os.kill(os.getpid(), number)
        os.kill(os.getpid(), number)  # a launcher that forwards signals may deliver one twice
        assert received.signal == number.name


def test_signal_handlers_are_restored_after_training():
    before = [signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)]
    with pytest.raises(ZeroDivisionError), Interruption():
        assert [signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)] != before
        1 / 0  # noqa: B018
    assert [signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)] == before


def test_training_in_another_thread_leaves_the_signal_handlers_alone():
    """Python refuses to set them there; a notebook may train in a thread."""
    handlers, errors = [], []

    def train():
        try:
            with Interruption():
                handlers.append(signal.getsignal(signal.SIGTERM))
        except ValueError as error:
            errors.append(error)

    thread = threading.Thread(target=train)
    thread.start()
    thread.join()
    assert (handlers, errors) == ([signal.getsignal(signal.SIGTERM)], [])


def test_check_interruption_stops_after_a_signal_only(coordinator):
    received = Interruption()
    checked = coordinator(received)
    checked.check_interruption()
    received.signal = "SIGTERM"
    with pytest.raises(TrainingInterrupted, match="interrupted by SIGTERM"):
        checked.check_interruption()


def test_checkpoint_timer_elapses_and_restarts(coordinator, monkeypatch):
    now = 1000.0
    monkeypatch.setattr(interruption.time, "monotonic", lambda: now)
    timed, untimed = coordinator(Interruption(), minutes=2), coordinator(Interruption())
    now += 119
    assert not timed.checkpoint_time_elapsed()
    now += 1
    assert timed.checkpoint_time_elapsed()
    assert not untimed.checkpoint_time_elapsed()
    timed.restart_checkpoint_timer()
    assert not timed.checkpoint_time_elapsed()
