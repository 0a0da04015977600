import pytest
import torch
from accelerate.state import AcceleratorState

from tests.tuneline.training import tiny_task
from tuneline.core.runtime.errors import ParamsError
from tuneline.training.devices import create_accelerator, describe_devices


def test_fp16_on_a_cpu_is_refused(project):
    """accelerate would accept it and compute in float32."""
    with pytest.raises(ParamsError, match="fp16 needs a GPU"):
        create_accelerator(tiny_task.params(mixed_precision="fp16"))


@pytest.mark.parametrize("parameter", [None, "auto"])
def test_launcher_sets_the_precision_by_default(parameter, project, accelerated, monkeypatch):
    monkeypatch.setenv("ACCELERATE_MIXED_PRECISION", "bf16")
    accelerator = create_accelerator(tiny_task.params(mixed_precision=parameter))
    assert accelerator.mixed_precision == "bf16"
    assert "bf16, 1 process" in describe_devices(accelerator)
    assert AcceleratorState().mixed_precision == "bf16"


def losses(outcome):
    return [row.loss for row in outcome.state.progress.logged]


def test_bf16_trains_close_to_float32_and_keeps_float32_weights(trained):
    plain, half = (
        trained(tiny_task.params(tiny_task.WITHOUT_DROPOUT, mixed_precision=precision))
        for precision in ("no", "bf16")
    )
    assert losses(half) == pytest.approx(losses(plain), abs=0.1)
    assert losses(half) != losses(plain)
    assert {weight.dtype for weight in half.weights.values()} == {torch.float32}


def test_gradient_checkpointing_gives_the_same_losses(trained):
    """Recomputed activations use the same dropout masks."""
    assert losses(trained(tiny_task.params(gradient_checkpointing=True))) == pytest.approx(
        losses(trained(tiny_task.params())), abs=1e-6
    )
