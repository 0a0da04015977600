"""The precision that ``train.mixed_precision: auto`` chooses on a CPU."""

import pytest

from stages.train.interruption import PAUSE_AT_STEP, TrainingInterrupted
from stages.train.precision import bf16_speed, choose_cpu_precision, interrupted_precision
from tests.stages.train import tiny_task
from tuneline.core.launch import DeviceChoice
from tuneline.core.machine import BF16_INSTRUCTIONS, processor_words

FLOAT32 = DeviceChoice("cpu", 1, "no")
BF16 = DeviceChoice("cpu", 1, "bf16")


@pytest.fixture
def interrupted(trained, monkeypatch):
    """Start a run in a precision, and pause it at its third step."""

    def start(precision: str) -> None:
        monkeypatch.setenv(PAUSE_AT_STEP, "3")
        monkeypatch.setenv(
            "ACCELERATE_MIXED_PRECISION", precision
        )  # as the launcher does with what was chosen
        with pytest.raises(TrainingInterrupted):
            trained(tiny_task.params(mixed_precision="auto"))
        monkeypatch.delenv(PAUSE_AT_STEP)

    return start


@pytest.mark.parametrize("precision", ["bf16", "no"])
def test_run_that_was_interrupted_keeps_its_precision(precision, interrupted):
    interrupted(precision)
    params = tiny_task.params(mixed_precision="auto")
    assert interrupted_precision(params) == precision
    chosen, reason = choose_cpu_precision(FLOAT32, params)
    assert chosen == precision
    assert reason.startswith("that of the run to resume")
    assert ("slowly" in reason) == (precision == "bf16"), "the processor of FLOAT32 does not compute bf16"


def test_another_run_has_a_precision_of_its_own(interrupted):
    interrupted("bf16")
    assert interrupted_precision(tiny_task.params(mixed_precision="auto", learning_rate=1e-3)) is None


def test_precision_without_bf16_instructions_is_float32(project):
    assert choose_cpu_precision(FLOAT32, tiny_task.params(mixed_precision="auto")) == (
        "no",
        "this processor does not compute bf16",
    )


def test_frozen_checkpoint_is_read_in_float32(project):
    params = tiny_task.params({**tiny_task.FINE_TUNED, "head": "frozen"}, mixed_precision="auto")
    assert choose_cpu_precision(BF16, params)[0] == "no"


@pytest.mark.skipif("amx_bf16" not in processor_words(), reason="only AMX is certain to be faster")
def test_processor_with_amx_trains_in_bf16_and_the_reason_is_the_measured_speed(project):
    precision, reason = choose_cpu_precision(BF16, tiny_task.params(mixed_precision="auto"))
    assert precision == "bf16"
    assert reason.endswith("x as fast as in float32")


@pytest.mark.skipif(
    not BF16_INSTRUCTIONS.isdisjoint(processor_words()), reason="this processor computes bf16"
)
def test_processor_that_converts_bf16_to_multiply_is_measured_as_slower():
    assert bf16_speed() < 1
