import pytest
import torch
import transformers
from torch import nn

from stages.train.optimization import build_optimizer, parameter_groups
from tests.stages.train import made

CPU = torch.device("cpu")


@pytest.fixture
def model():
    return nn.Sequential(nn.Linear(4, 4), nn.LayerNorm(4), nn.Embedding(3, 4))


def test_matrices_decay_and_vectors_do_not(model):
    decayed, kept = parameter_groups(model, 0.1)
    assert [parameter.ndim for parameter in decayed["params"]] == [2, 2]
    assert [parameter.ndim for parameter in kept["params"]] == [1, 1, 1]
    assert (decayed["weight_decay"], kept["weight_decay"]) == (0.1, 0.0)


def test_what_is_frozen_is_in_no_group(model):
    model[0].requires_grad_(False)
    assert sum(len(group["params"]) for group in parameter_groups(model, 0.1)) == 3


@pytest.mark.parametrize(
    ("name", "kind"),
    [("adamw", torch.optim.AdamW), ("adam", torch.optim.Adam), ("sgd", torch.optim.SGD), ("adafactor", transformers.Adafactor)],
)
def test_an_optimizer_has_a_name(model, name, kind):
    optimizer = build_optimizer(model, made.params(optimizer=name, learning_rate=0.02).train, CPU)
    assert type(optimizer) is kind
    assert {group["lr"] for group in optimizer.param_groups} == {0.02}


@pytest.mark.parametrize("name", ["adamw", "adam"])
def test_adam_runs_fused_where_the_device_has_it(model, name):
    settings = made.params(optimizer=name, betas=[0.8, 0.9], epsilon=1e-6).train
    assert build_optimizer(model, settings, CPU).defaults["fused"]
    assert not build_optimizer(model, settings, torch.device("meta")).defaults["fused"]
    assert build_optimizer(model, settings, CPU).defaults["betas"] == (0.8, 0.9)


@pytest.mark.parametrize(("name", "rate"), [("adamw", 2e-3), ("adam", 2e-3), ("adafactor", 5e-3), ("sgd", 0.05)])
def test_every_optimizer_descends(trained, name, rate):
    """On the whole split at once, where each step goes down the loss that is measured."""
    whole = {"global_batch_size": 60, "micro_batch_size": 60, "epochs": 15, "warmup_ratio": 0.0, "weight_decay": 0.0}
    outcome = trained(made.params(made.WITHOUT_DROPOUT, optimizer=name, learning_rate=rate, **whole))
    losses = [row.loss for row in outcome.state.progress.logged]
    assert losses[-1] < losses[0]
