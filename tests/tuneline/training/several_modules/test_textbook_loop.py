"""With plain settings, the stage does what the textbook loop does: the same batches give the same weights."""

import copy

import pytest
import torch
from transformers import get_scheduler

from tests.tuneline.training import tiny_task
from tuneline.training import loop
from tuneline.training.data import read_inputs
from tuneline.training.devices import create_accelerator
from tuneline.training.interruption import Interruption
from tuneline.training.loop import train_to_end
from tuneline.training.state import set_up

PLAIN = {
    "warmup_ratio": 0.0,
    "weight_decay": 0.0,
    "keep": "last",
}


def train_by_the_textbook(model, batches, learning_rate, max_norm):
    optimizer = torch.optim.AdamW(model.parameters(), lr=learning_rate, weight_decay=0.0)
    schedule = get_scheduler("linear", optimizer, 0, len(batches))
    model.train()
    for inputs, labels in batches:
        model(**inputs, labels=labels).loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), max_norm)
        optimizer.step()
        schedule.step()
        optimizer.zero_grad()


@pytest.mark.parametrize("max_norm", [100.0, 0.1])
def test_training_gives_the_weights_of_the_textbook_loop(project, accelerated, max_norm, monkeypatch):
    """0.1 clips every gradient; 60 rows in batches of 8, in micro-batches of 4: the last batch is smaller."""
    params = tiny_task.params(tiny_task.WITHOUT_DROPOUT, **PLAIN)
    monkeypatch.setattr(loop, "MAX_GRADIENT_NORM", max_norm)
    state = set_up(params, read_inputs(params.train), create_accelerator(params), Interruption())
    model = copy.deepcopy(state.accelerator.unwrap_model(state.model))
    before = copy.deepcopy(model.state_dict())
    rows = [batch for epoch in range(2) for batch in state.sampler.epoch(epoch)]
    batches = [(state.train_loader.inputs(batch), state.train_loader.labels(batch)) for batch in rows]
    train_to_end(state)
    train_by_the_textbook(model, batches, params.train.learning_rate, max_norm)
    ours = state.accelerator.unwrap_model(state.model).state_dict()
    assert state.total_steps == len(batches) == 16
    for name, expected in model.state_dict().items():
        torch.testing.assert_close(
            ours[name], expected, rtol=1e-3, atol=1e-5, msg=lambda text, name=name: f"{name}: {text}"
        )
    assert max(float((ours[name] - before[name]).abs().max()) for name in before) > 1e-2, (
        "the weights were trained"
    )
