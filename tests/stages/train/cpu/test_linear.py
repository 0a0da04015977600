"""Linear layers in float32 that oneDNN computes."""

import pytest
import torch
from torch import nn

from stages.train.cpu.linear import OneDnnLinear, onednn_is_faster, use_onednn
from stages.train.devices import processor_kind
from tests.stages.train import tiny_task
from tuneline.core import machine


@pytest.mark.parametrize("bias", [True, False])
def test_linear_layer_of_onednn_has_output_and_gradients_of_torch(bias):
    torch.manual_seed(0)
    ours = nn.Sequential(nn.Linear(24, 40, bias=bias))
    torchs = nn.Linear(24, 40, bias=bias)
    torchs.load_state_dict(ours[0].state_dict())
    use_onednn(ours)
    assert isinstance(ours[0], OneDnnLinear)
    assert list(ours.state_dict()) == [f"0.{name}" for name in torchs.state_dict()]
    results = []
    for layer in (ours, torchs):
        values = torch.randn(3, 7, 24, generator=torch.Generator().manual_seed(1)).requires_grad_()
        output = layer(values)
        output.square().sum().backward()
        results.append([output, values.grad, *(parameter.grad for parameter in layer.parameters())])
    for one, other in zip(*results, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-5, atol=1e-5)


def test_frozen_linear_layer_of_onednn_gets_no_gradient():
    layers = nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 4))
    layers[1].requires_grad_(False)
    use_onednn(layers)
    layers(torch.ones(2, 4)).sum().backward()
    assert layers[0].weight.grad is not None
    assert layers[1].weight.grad is None


PROCESSORS = {"AuthenticAMD": True, "GenuineIntel": False, None: False}


@pytest.mark.parametrize("maker", PROCESSORS)
def test_onednn_is_used_where_mkl_is_limited_to_avx2(maker, trained, tmp_path, monkeypatch):
    """Of AMD, with AVX-512. The trained weights are those of torch, up to rounding."""
    file = tmp_path / "cpuinfo"
    if maker:
        file.write_text(f"processor\t: 0\nvendor_id\t: {maker}\n")
    monkeypatch.setattr(torch.backends.cpu, "get_cpu_capability", lambda: "AVX512")
    expected = trained(tiny_task.params(tiny_task.WITHOUT_DROPOUT)).weights
    monkeypatch.setattr(machine, "PROCESSORS", file)
    assert onednn_is_faster() == PROCESSORS[maker]
    result = trained(tiny_task.params(tiny_task.WITHOUT_DROPOUT))
    assert any(isinstance(module, OneDnnLinear) for module in result.model.modules()) == PROCESSORS[maker]
    assert ("oneDNN" in processor_kind(torch.device("cpu"), "no")) == PROCESSORS[maker]
    for name, values in result.weights.items():
        torch.testing.assert_close(values, expected[name], rtol=1e-3, atol=1e-4)
