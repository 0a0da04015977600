"""LoRA: what learns, what is published, and what a checkpoint holds."""

import pytest
import torch

from tests.small_pipeline import FAMILIES, tiny_model
from tests.tuneline.training import tiny_task
from tuneline.core.params.train import LoraParams
from tuneline.core.runtime.errors import ParamsError
from tuneline.training.model import add_adapters

RANK = 2
ADAPTED = ("query.weight", "value.weight")
"""Ends of the names of the weights that peft adapts in BERT by default."""
HEADS = {
    "albert": {"albert.pooler.", "classifier."},
    "bert": {"bert.pooler.", "classifier."},
    "deberta-v2": {"pooler.", "classifier."},
    "distilbert": {"pre_classifier.", "classifier."},
    "electra": {"classifier."},
    "minilm": {"bert.pooler.", "classifier."},
    "modernbert": {"head.", "classifier."},
    "roberta": {"classifier."},
}
"""What a checkpoint of a masked language model lacks, by model family: the beginnings of the names."""


def changed_weights(outcome, before):
    assert outcome.weights.keys() == before.keys(), "the whole model is published, without adapters"
    return {name for name in before if not torch.equal(before[name], outcome.weights[name])}


@pytest.mark.parametrize(
    "drawn", [("classifier.",), ("bert.pooler.", "classifier.")], ids=["head", "pooler and head"]
)
def test_lora_trains_adapters_head_and_what_the_checkpoint_lacks(project, trained, drawn):
    tiny_task.write_checkpoint(project, without=drawn)
    outcome = trained(tiny_task.params(tiny_task.FINE_TUNED, lora={"rank": RANK}, keep="last"))
    torch.manual_seed(3)
    before = tiny_task.build_model(
        tiny_task.params(tiny_task.FINE_TUNED).model, tiny_task.CLASSES, tiny_task.tokenizer()
    )[0].state_dict()
    expected = {name for name in before if name.endswith(ADAPTED) or name.startswith(drawn)}
    assert changed_weights(outcome, before) == expected


@pytest.mark.parametrize("targets", [None, "all-linear", ["dense"]])
def test_merged_model_predicts_as_the_adapted_model(project, trained, targets):
    tiny_task.write_checkpoint(project, without=("bert.pooler.", "classifier."))
    outcome = trained(
        tiny_task.params(tiny_task.FINE_TUNED, lora={"rank": RANK, "target_modules": targets}, keep="last")
    )
    rows = outcome.state.sampler.epoch(0)[0]
    inputs = outcome.state.train_loader.inputs(rows)
    outcome.state.model.eval()
    outcome.model.eval()
    with torch.no_grad():
        assert torch.allclose(outcome.model(**inputs).logits, outcome.state.model(**inputs).logits, atol=1e-6)


@pytest.mark.parametrize("family", HEADS)
def test_what_is_drawn_at_random_is_trained_and_merged_in_every_family(family):
    model = tiny_model(family, outputs=3)
    plain = model.state_dict()
    drawn = {name for name in plain if name.startswith(tuple(HEADS[family]))}
    adapted = add_adapters(model, LoraParams(rank=RANK, target_modules="all-linear"), drawn)
    trained = {
        name for name, weight in adapted.named_parameters() if weight.requires_grad and "lora_" not in name
    }
    names = {
        name.removeprefix("base_model.model.").replace(".modules_to_save.default", "") for name in trained
    }
    assert names == drawn
    logits = adapted(input_ids=torch.arange(5, 17).reshape(2, 6)).logits
    logits.sum().backward()
    assert {name for name, weight in adapted.named_parameters() if weight.grad is not None} >= trained
    assert adapted.merge_and_unload().state_dict().keys() == plain.keys()


def test_every_family_is_tested():
    assert HEADS.keys() == FAMILIES.keys()


def test_lora_with_unknown_target_modules_lists_the_linear_layers():
    with pytest.raises(ParamsError, match=r"lora\.target_modules"):
        add_adapters(tiny_model("bert", outputs=3), LoraParams(rank=RANK, target_modules=["q_proj"]), ())
