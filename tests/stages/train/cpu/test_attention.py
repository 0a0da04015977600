"""Attention in training by single products."""

import pytest
import torch
from torch import nn
from transformers.integrations.sdpa_attention import sdpa_attention_forward

from stages.train import state
from stages.train.cpu import attention
from stages.train.cpu.attention import attend
from stages.train.cpu.dropout import fast_dropout_masks
from tests.stages.train import tiny_task

HEADS = (2, 4, 6, 8)
"""Rows, heads, tokens and features."""
PADDED = torch.ones(2, 1, 6, 6, dtype=torch.bool)
PADDED[1, :, :, 4:] = False


class SelfAttention(nn.Module):
    is_causal = False


@pytest.mark.parametrize("mask", [None, PADDED])
def test_attention_with_dropout_is_that_of_torch(mask):
    """By the mean of 2,000 masks, and exactly where no weight is dropped."""
    generator = torch.Generator().manual_seed(0)
    query, key, value = (torch.randn(HEADS, generator=generator) for _ in range(3))
    torch.manual_seed(0)
    with fast_dropout_masks():
        outputs = torch.stack(
            [attend(SelfAttention(), query, key, value, mask, dropout=0.1)[0] for _ in range(2_000)]
        )
        unchanged = attend(SelfAttention(), query, key, value, mask, dropout=1e-6)[0]
    expected = sdpa_attention_forward(SelfAttention(), query, key, value, mask, dropout=0.0)[0]
    torch.testing.assert_close(unchanged, expected, rtol=1e-5, atol=1e-5)
    torch.testing.assert_close(outputs.mean(0), expected, rtol=0, atol=0.05)
    assert float(outputs.std(0).mean()) > 0.05


@pytest.mark.parametrize(
    "options",
    [
        {"dropout": 0.0},
        {"dropout": 0.5, "is_causal": True},
        {"dropout": 0.5, "position_bias": torch.zeros(6, 6)},
    ],
)
def test_other_attention_is_left_to_transformers(options, monkeypatch):
    calls = []
    monkeypatch.setattr(
        attention,
        "sdpa_attention_forward",
        lambda *arguments, **named: calls.append(named) or (torch.zeros(1), None),
    )
    attend(SelfAttention(), *(torch.ones(HEADS) for _ in range(3)), None, **options)
    assert len(calls) == 1
    assert options.items() <= calls[0].items()


def test_training_attends_without_the_check_of_torch(trained, monkeypatch):
    """``_safe_softmax`` is that check. Evaluations have no dropout, and use torch's fused kernel."""
    seen = set()
    original = state.build_model

    def observed(*arguments):
        model, drawn = original(*arguments)
        profiler = torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU])
        model.register_forward_pre_hook(lambda *_: profiler.start())

        def stop(*_):
            profiler.stop()
            seen.update(
                (model.training, event.key)
                for event in profiler.key_averages()
                if "softmax" in event.key or "flash" in event.key
            )

        model.register_forward_hook(stop)
        return model, drawn

    monkeypatch.setattr(state, "build_model", observed)
    trained(tiny_task.params(max_steps=1, epochs=None))
    assert (True, "aten::softmax") in seen
    assert (True, "aten::_safe_softmax") not in seen
    assert (False, "aten::_scaled_dot_product_flash_attention_for_cpu") in seen


@pytest.mark.parametrize("mask", [None, PADDED])
def test_attention_in_bf16_has_output_and_gradients_of_torch_in_float32(mask):
    """Without dropout, in training; torch's fused kernel would take half of the step to go back."""
    generator = torch.Generator().manual_seed(0)
    inputs = [torch.randn(HEADS, generator=generator) for _ in range(3)]
    results = []
    for dtype, function in ((torch.float32, sdpa_attention_forward), (torch.bfloat16, attend)):
        tensors = [values.to(dtype, copy=True).requires_grad_() for values in inputs]
        output, _ = function(SelfAttention(), *tensors, mask)
        output.square().sum().backward()
        results.append([output, *(values.grad for values in tensors)])
    assert results[1][0].grad_fn.name() != "ScaledDotProductFlashAttentionForCpuBackward0"
    for single, bf16 in zip(*results, strict=True):
        torch.testing.assert_close(bf16.float(), single, rtol=0.05, atol=0.05)


def test_attention_in_bf16_without_gradients_is_left_to_the_fused_kernel(monkeypatch):
    calls = []
    monkeypatch.setattr(
        attention, "sdpa_attention_forward", lambda *_, **named: calls.append(named) or (torch.zeros(1), None)
    )
    attend(SelfAttention(), *(torch.ones(HEADS, dtype=torch.bfloat16) for _ in range(3)), None)
    assert len(calls) == 1
