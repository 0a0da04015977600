import pytest
import torch
from accelerate.state import AcceleratorState

from stages.train.devices import clip_gradients, create_accelerator, describe_devices, describe_layout
from tests.stages.train import tiny_task
from tuneline.runtime.errors import ParamsError, StageError


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


def test_launch_for_a_gpu_that_trains_on_the_cpu_is_an_error(project, accelerated, monkeypatch):
    """The driver may be there, and torch built for the CPU or for another driver."""
    monkeypatch.delenv("ACCELERATE_USE_CPU")
    with pytest.raises(StageError, match=r"accelerate/multi-node\.yaml"):
        create_accelerator(tiny_task.params(launch="multi-node"))


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


def test_layout_tells_micro_batches_and_threads_apart(project, accelerated):
    accelerator = create_accelerator(tiny_task.params())
    before = describe_layout(accelerator, 4)
    assert describe_layout(accelerator, 4) == before
    assert describe_layout(accelerator, 2) != before


@pytest.mark.parametrize("max_norm", [0.5, 50.0])
def test_gradients_are_clipped_as_torch_does_it(project, accelerated, max_norm):
    """With an epsilon of 1, a step of Adam depends on the size of the gradients."""
    ours, torchs = (
        [torch.nn.Parameter(torch.arange(12.0).view(3, 4)), torch.nn.Parameter(torch.ones(2))]
        for _ in range(2)
    )
    accelerator = create_accelerator(tiny_task.params())
    for weight in (*ours, *torchs):
        weight.grad = torch.full_like(weight, 2.0)
    optimizer = accelerator.prepare(torch.optim.AdamW(ours, lr=0.1, eps=1.0, fused=True))
    norm = clip_gradients(accelerator, torch.nn.ParameterList(ours), optimizer, max_norm)
    assert (
        norm
        == pytest.approx(float(torch.nn.utils.clip_grad_norm_(torchs, max_norm)))
        == pytest.approx(14**0.5 * 2)
    )
    optimizer.step()
    torch.optim.AdamW(torchs, lr=0.1, eps=1.0).step()
    for weight, expected in zip(ours, torchs, strict=True):
        torch.testing.assert_close(weight, expected)
