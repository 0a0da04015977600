"""Dropout masks, attention and linear layers on the CPU, and waits of OpenMP's threads; benchmarks/contention.py measures the last."""

import os
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
import torch
from torch import nn
from torch.nn.functional import dropout, scaled_dot_product_attention
from transformers.integrations.sdpa_attention import sdpa_attention_forward

from stages.train import cpu, state
from stages.train.cpu import (
    IDLE_THREAD,
    OneDnnLinear,
    attend,
    fast_dropout_masks,
    onednn_is_faster,
    short_waits_on_shared_cores,
    teams_needed,
    use_onednn,
)
from stages.train.devices import processor_kind
from tests.stages.train import tiny_task
from tuneline.core import machine

linux = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="only Linux has the statistics of its scheduler")
TIMEOUT = 60.0


def idle_threads() -> int:
    return sum(thread.name == IDLE_THREAD for thread in threading.enumerate())


def tasks() -> int:
    """Return the number of threads of this process, those of OpenMP included."""
    return len(list(Path("/proc/self/task").iterdir()))


@pytest.fixture
def competitors():
    """Twice as many busy processes as there are cores."""
    processes = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(2 * len(os.sched_getaffinity(0)))]
    yield
    for process in processes:
        process.kill()
        process.wait()


@pytest.fixture
def threads(monkeypatch):
    """Two computing threads, whatever the other tests use."""
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    yield
    torch.set_num_threads(before)


@linux
def test_shared_cores_start_an_idle_team_that_ends_with_the_block(threads, competitors):
    matrix = torch.ones(256, 256)
    with short_waits_on_shared_cores():
        before, deadline = tasks(), time.monotonic() + TIMEOUT
        while not (idle_threads() and tasks() > before + idle_threads()) and time.monotonic() < deadline:
            matrix @ matrix
        assert idle_threads() == teams_needed(2, len(os.sched_getaffinity(0)))
        assert tasks() >= before + 2 * idle_threads(), "a team has a second thread"
    assert not idle_threads()


@linux
def test_single_thread_starts_nothing(monkeypatch):
    monkeypatch.setattr(torch, "get_num_threads", lambda: 1)
    before = threading.active_count()
    with short_waits_on_shared_cores():
        assert threading.active_count() == before


@pytest.mark.parametrize(("threads", "cores", "teams"), [(2, 2, 1), (4, 4, 1), (2, 8, 7), (4, 8, 2), (16, 8, 1)])
def test_teams_needed_exceed_the_cores(threads, cores, teams):
    assert teams_needed(threads, cores) == teams
    managed = threads + teams * (threads - 1)
    assert managed > cores


def dropped(rate: float, threads: int = 1) -> torch.Tensor:
    torch.manual_seed(3)
    torch.set_num_threads(threads)
    try:
        return dropout(torch.ones(300, 7, 11), rate)
    finally:
        torch.set_num_threads(1)


def test_dropout_masks_follow_from_the_seed_and_have_the_rate():
    torchs = dropped(0.1)
    with fast_dropout_masks():
        ours = dropped(0.1)
        assert torch.equal(dropped(0.1, threads=2), ours)
        assert (ours == 0).float().mean() == pytest.approx(0.1, abs=0.006), "23,100 elements: three standard deviations"
        assert ours.unique().tolist() == pytest.approx([0.0, 1 / 0.9])
        assert not torch.equal(dropout(torch.ones(300, 7, 11), 0.1), ours), "the next mask is another one"
        assert torch.equal(dropped(0.0), torch.ones(300, 7, 11))
        assert torch.equal(dropped(1e-6), torch.ones(300, 7, 11) / (1 - 1e-6)), "rounded to 0"
    assert not torch.equal(torchs, ours)
    assert torch.equal(dropped(0.1), torchs), "torch draws again"


def test_dropout_of_attention_is_drawn_as_well():
    def attended() -> torch.Tensor:
        torch.manual_seed(3)
        rows = torch.zeros(1, 1, 8, 8)
        return scaled_dot_product_attention(rows, rows, torch.eye(8)[None, None], dropout_p=0.5)

    torchs = attended()
    with fast_dropout_masks():
        assert not torch.equal(attended(), torchs)


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
        outputs = torch.stack([attend(SelfAttention(), query, key, value, mask, dropout=0.1)[0] for _ in range(2_000)])
        unchanged = attend(SelfAttention(), query, key, value, mask, dropout=1e-6)[0]
    expected = sdpa_attention_forward(SelfAttention(), query, key, value, mask, dropout=0.0)[0]
    torch.testing.assert_close(unchanged, expected, rtol=1e-5, atol=1e-5)
    torch.testing.assert_close(outputs.mean(0), expected, rtol=0, atol=0.05)
    assert float(outputs.std(0).mean()) > 0.05


@pytest.mark.parametrize(
    "options", [{"dropout": 0.0}, {"dropout": 0.5, "is_causal": True}, {"dropout": 0.5, "position_bias": torch.zeros(6, 6)}]
)
def test_other_attention_is_left_to_transformers(options, monkeypatch):
    calls = []
    monkeypatch.setattr(cpu, "sdpa_attention_forward", lambda *arguments, **named: calls.append(named) or (torch.zeros(1), None))
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
            seen.update((model.training, event.key) for event in profiler.key_averages() if "softmax" in event.key or "flash" in event.key)

        model.register_forward_hook(stop)
        return model, drawn

    monkeypatch.setattr(state, "build_model", observed)
    trained(tiny_task.params(max_steps=1, epochs=None))
    assert (True, "aten::softmax") in seen
    assert (True, "aten::_safe_softmax") not in seen
    assert (False, "aten::_scaled_dot_product_flash_attention_for_cpu") in seen


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
    assert ("oneDNN" in processor_kind(torch.device("cpu"))) == PROCESSORS[maker]
    for name, values in result.weights.items():
        torch.testing.assert_close(values, expected[name], rtol=1e-3, atol=1e-4)
