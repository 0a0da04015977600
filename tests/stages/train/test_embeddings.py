"""Training only the token embeddings that the train split uses gives the model that training all of them
gives."""

import copy

import numpy as np
import pytest
import torch
from torch import nn
from transformers import (
    BertConfig,
    BertForSequenceClassification,
)

from stages.train import embeddings, state
from stages.train.data import read_inputs
from stages.train.devices import create_accelerator
from stages.train.embeddings import UsedEmbeddings, fold_embeddings, train_used_embeddings, used_embeddings
from stages.train.interruption import Interruption
from stages.train.loop import train_to_end
from tests.small_pipeline import FAMILIES, tiny_model
from tests.stages.train import tiny_task

TABLE = "bert.embeddings.word_embeddings.weight"
LARGE = {**tiny_task.WITHOUT_DROPOUT, "vocab_size": 200}
"""The tokens of the tiny task are a sixth of this vocabulary."""


def small_bert(vocabulary=50):
    torch.manual_seed(0)
    return BertForSequenceClassification(
        BertConfig(
            vocab_size=vocabulary,
            hidden_size=8,
            num_hidden_layers=1,
            num_attention_heads=2,
            intermediate_size=16,
        )
    )


def test_training_used_embeddings_only_gives_the_same_weights(project, accelerated, monkeypatch):
    """Weight decay is so strong that embeddings of unused tokens become visibly smaller."""
    params = tiny_task.params(LARGE, weight_decay=1.0, learning_rate=1e-2, keep="last")
    results = []
    for share in (0.5, 0.0):
        monkeypatch.setattr(embeddings, "LARGEST_SHARE", share)
        run = state.set_up(
            params,
            read_inputs(params.train),
            create_accelerator(params),
            Interruption(),
            params.train.micro_batch_size,
        )
        before = weights_of(run)
        with run.logger.open(run.progress, run.total_steps):
            train_to_end(run)
        results.append((weights_of(run), run.validation_logits, used_embeddings(run.model), before))
    (ours, logits, found, before), (expected, expected_logits, nothing, _) = results
    assert found is not None
    assert nothing is None
    assert ours.keys() == expected.keys()
    for name, values in expected.items():
        torch.testing.assert_close(
            ours[name], values, rtol=1e-4, atol=1e-6, msg=lambda text, name=name: f"{name}: {text}"
        )
    torch.testing.assert_close(logits, expected_logits, rtol=1e-4, atol=1e-6)
    assert float(ours[TABLE][100:].norm() / before[TABLE][100:].norm()) < 0.95


def weights_of(run):
    model = run.accelerator.unwrap_model(run.model)
    weights = copy.deepcopy(model.state_dict())
    fold_embeddings(model, weights)
    return weights


@pytest.mark.parametrize("family", FAMILIES)
def test_every_architecture_has_the_same_logits_and_gradients_with_used_embeddings_only(family):
    ids = torch.arange(5, 45).view(4, 10)
    results = []
    for divided in (False, True):
        model = tiny_model(family, outputs=3)
        if divided:
            train_used_embeddings(model, ids.numpy().ravel(), padding=0)
            assert isinstance(model.get_input_embeddings(), UsedEmbeddings)
        outputs = model(input_ids=ids, attention_mask=torch.ones_like(ids), labels=torch.tensor([0, 1, 2, 0]))
        outputs.loss.backward()
        gradients = {
            name: weight.grad for name, weight in model.named_parameters() if weight.grad is not None
        }
        name = next(
            name
            for name in gradients
            if name.removesuffix(".weight").endswith(("word_embeddings", "tok_embeddings"))
        )
        table = gradients.pop(name)
        results.append([outputs.logits.detach(), table[1:-1] if divided else table[5:45], gradients])
    torch.testing.assert_close(results[1], results[0])


def test_embeddings_stay_whole_if_half_are_used_or_they_are_frozen():
    for vocabulary, frozen in ((21, False), (50, True)):
        model = small_bert(vocabulary)
        model.get_input_embeddings().weight.requires_grad_(not frozen)
        train_used_embeddings(model, np.arange(5, 15), padding=0)
        assert type(model.get_input_embeddings()) is nn.Embedding
