"""Layers that train in bf16 on a CPU."""

import math

import numpy as np
import pytest
import torch
from torch import nn

from stages.train.cpu.attention import fast_attention
from stages.train.cpu.bf16 import (
    PADDING_MULTIPLE,
    Bf16Dropout,
    Bf16LayerNorm,
    Bf16Linear,
    dropout_in_bf16,
    use_bf16,
)
from stages.train.data import BatchLoader
from tests.small_pipeline import FAMILIES, tiny_model
from tests.stages.train import tiny_task

GENERATOR = torch.Generator()
WITHOUT_DROPOUT = 0.0


def random(*shape: int) -> torch.Tensor:
    return torch.randn(shape, generator=GENERATOR.manual_seed(math.prod(shape)))


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("shape", [(3, 7, 24), (5, 24)])
def test_linear_layer_has_output_and_gradients_of_float32_up_to_rounding(bias, shape):
    torch.manual_seed(0)
    ours = nn.Sequential(nn.Linear(24, 40, bias=bias))
    torchs = nn.Linear(24, 40, bias=bias)
    torchs.load_state_dict(ours[0].state_dict())
    use_bf16(ours)
    assert isinstance(ours[0], Bf16Linear)
    assert list(ours.state_dict()) == [f"0.{name}" for name in torchs.state_dict()]
    results = []
    for layer in (ours, torchs):
        values = random(*shape).requires_grad_()
        output = layer(values)
        output.float().square().sum().backward()
        results.append([output.float(), values.grad, *(parameter.grad for parameter in layer.parameters())])
    assert {gradient.dtype for gradient in results[0]} == {torch.float32}
    for rounded, exact in zip(*results, strict=True):
        assert float((rounded - exact).detach().norm() / exact.detach().norm()) < 0.01


def test_frozen_linear_layer_gets_no_gradient():
    layers = nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 4))
    layers[1].requires_grad_(False)
    use_bf16(layers)
    layers(torch.ones(2, 4)).float().sum().backward()
    assert layers[0].weight.grad is not None
    assert layers[1].weight.grad is None


def test_gradient_of_an_expanded_tensor_is_read_row_by_row():
    layers = nn.Sequential(nn.Linear(4, 4))
    use_bf16(layers)
    layers(torch.ones(3, 5, 4)).sum(dtype=torch.float32).backward()  # the gradient is one number for all
    torch.testing.assert_close(layers[0].weight.grad, torch.full((4, 4), 15.0))


def test_layer_norm_has_the_values_of_float32_up_to_rounding():
    layers = nn.Sequential(nn.LayerNorm(16))
    nn.init.normal_(layers[0].weight)
    expected = layers(random(3, 16))
    use_bf16(layers)
    assert isinstance(layers[0], Bf16LayerNorm)
    output = layers(random(3, 16))
    assert output.dtype == torch.bfloat16
    torch.testing.assert_close(output.float(), expected, rtol=0.02, atol=0.02)


def test_dropout_has_the_rate_and_follows_from_the_seed():
    layers = nn.Sequential(nn.Dropout(0.1))
    use_bf16(layers)
    assert isinstance(layers[0], Bf16Dropout)
    values = torch.ones(300, 7, 11, dtype=torch.bfloat16, requires_grad=True)
    torch.manual_seed(3)
    dropped = layers(values)
    dropped.sum(dtype=torch.float32).backward()
    assert (dropped == 0).float().mean() == pytest.approx(0.1, abs=0.006), (
        "23,100 elements: three standard deviations"
    )
    assert dropped.unique().tolist() == pytest.approx([0.0, 1 / 0.9], rel=2**-8)
    assert torch.equal(values.grad, dropped), "the mask of the output"
    assert not torch.equal(layers(values), dropped), "the next mask is another one"
    torch.manual_seed(3)
    assert torch.equal(layers(values), dropped)
    layers.eval()
    assert torch.equal(layers(values), values)


@pytest.mark.parametrize(("rate", "kept"), [(0.0, 1.0), (1.0, 0.0)])
def test_dropout_of_nothing_and_of_everything(rate, kept):
    assert torch.equal(
        dropout_in_bf16(torch.ones(4, dtype=torch.bfloat16), rate),
        torch.full((4,), kept, dtype=torch.bfloat16),
    )


def gradients(family: str, in_bf16: bool) -> torch.Tensor:
    """Return all gradients of a model without dropout, for rows of several lengths, as one vector."""
    ids = torch.arange(5, 45).view(4, 10)
    mask = torch.ones_like(ids)
    mask[1, 7:] = 0
    mask[3, 4:] = 0
    model = tiny_model(family, outputs=3)
    for module in model.modules():
        if isinstance(module, nn.Dropout):
            module.p = WITHOUT_DROPOUT
        for name in ("dropout_prob", "attention_dropout"):
            if isinstance(getattr(module, name, None), float):
                setattr(module, name, WITHOUT_DROPOUT)
    if in_bf16:
        use_bf16(model)
    with torch.autocast("cpu", torch.bfloat16, enabled=in_bf16):
        logits = model(input_ids=ids, attention_mask=mask).logits
    nn.functional.cross_entropy(logits.float(), torch.tensor([0, 1, 2, 0])).backward()
    assert {weight.grad.dtype for weight in model.parameters() if weight.grad is not None} == {torch.float32}
    return torch.cat([weight.grad.flatten() for weight in model.parameters() if weight.grad is not None])


@pytest.mark.parametrize("family", FAMILIES)
def test_gradients_of_every_architecture_are_close_to_those_of_float32(family):
    exact = gradients(family, in_bf16=False)
    with fast_attention():
        rounded = gradients(family, in_bf16=True)
    assert float((rounded - exact).norm() / exact.norm()) < 0.02


def test_training_in_bf16_uses_these_layers_and_pads_to_a_multiple_of_tokens(trained, monkeypatch):
    shapes = set()
    inputs = BatchLoader.inputs

    def observed(loader, rows):
        batch = inputs(loader, rows)
        shapes.add(batch["input_ids"].shape[1])
        return batch

    monkeypatch.setattr(BatchLoader, "inputs", observed)
    result = trained(tiny_task.params(mixed_precision="bf16"))
    kinds = {type(module) for module in result.model.modules()}
    assert {Bf16Linear, Bf16LayerNorm, Bf16Dropout} <= kinds
    longest = {
        loader.split.tokens.longest for loader in (result.state.train_loader, result.state.validation_loader)
    }
    assert {tokens for tokens in shapes if tokens % PADDING_MULTIPLE} <= longest, (
        "no row of the data is longer"
    )


def test_limit_of_tokens_and_the_printed_padding_count_what_the_rows_are_padded_to(trained):
    """With a limit of one token less than two padded rows have, each row is a micro-batch of its own."""
    state = trained(
        tiny_task.params(mixed_precision="bf16", micro_batch_tokens=2 * PADDING_MULTIPLE - 1)
    ).state
    loader = state.train_loader
    shortest = np.argsort(loader.split.lengths)[:2]
    assert (
        loader.width(shortest) % PADDING_MULTIPLE == 0
        or loader.width(shortest) == loader.split.tokens.longest
    )
    assert state.rows_at_once(shortest) == 1
    steps = [rows for epoch in range(state.params.epochs) for rows in state.sampler.epoch(epoch)]
    single_rows = [row for rows in steps for row in rows]
    assert state.logger.throughput.positions == sum(loader.width(np.array([row])) for row in single_rows)


def test_rows_are_never_padded_beyond_the_longest_of_the_split(trained):
    """The model has as many positions as the longest row has tokens: 17, no multiple of four."""
    result = trained(tiny_task.params({"max_position_embeddings": 17}, mixed_precision="bf16"))
    assert result.state.train_loader.split.tokens.longest == 17


def test_largest_learning_rate_of_init_gives_no_nan(trained):
    result = trained(tiny_task.params(mixed_precision="bf16", learning_rate=5e-4, epochs=2))
    assert all(
        math.isfinite(row.loss) and math.isfinite(row.gradient_norm) for row in result.state.progress.logged
    )


@pytest.mark.parametrize(
    "train", [{"lora": {"rank": 2}}, {"freeze": ["embeddings"]}, {"micro_batch_size": 8}], ids=str
)
def test_adapters_frozen_weights_and_whole_batches_train_as_in_float32(trained, train):
    single, rounded = (
        trained(tiny_task.params(tiny_task.WITHOUT_DROPOUT, mixed_precision=value, **train))
        for value in ("no", "bf16")
    )
    losses = [[row.loss for row in result.state.progress.logged] for result in (single, rounded)]
    assert losses[1] == pytest.approx(losses[0], abs=0.03)
    assert losses[1] != losses[0]
    assert {weight.dtype for weight in rounded.weights.values()} == {torch.float32}


def test_recomputed_activations_have_the_same_masks(trained):
    """The losses of gradient checkpointing are those of a run without it."""
    plain, recomputed = (
        trained(tiny_task.params(mixed_precision="bf16", gradient_checkpointing=value))
        for value in (False, True)
    )
    losses = [[row.loss for row in result.state.progress.logged] for result in (plain, recomputed)]
    assert losses[1] == pytest.approx(losses[0], abs=1e-6)
