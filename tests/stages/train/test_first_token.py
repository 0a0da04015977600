import pytest
import torch

from stages.train.model import compute_first_token_only
from tests.small_pipeline import FAMILIES, SMALL, tiny_model
from tests.stages.train import made
from tuneline.architectures import ARCHITECTURES

FIRST_TOKEN_MODELS = [name for name, architecture in ARCHITECTURES.items() if architecture.after_attention]


@pytest.fixture(autouse=True)
def more_families(monkeypatch):
    """Kinds of model that train, beside those that the export is tested with."""
    for name in ("camembert", "xlm-roberta"):
        monkeypatch.setitem(FAMILIES, name, FAMILIES["roberta"])
    monkeypatch.setitem(FAMILIES, "mpnet", {**SMALL, "pad_token_id": 1})


def batch(model):
    """Rows of 9, 5 and 1 tokens."""
    lengths = torch.tensor([9, 5, 1])
    mask = (torch.arange(9) < lengths[:, None]).long()
    ids = torch.randint(5, 100, (3, 9), generator=torch.Generator().manual_seed(1))
    return {"input_ids": torch.where(mask.bool(), ids, model.config.pad_token_id), "attention_mask": mask}


def logits_and_gradients(model, inputs):
    model.zero_grad()
    logits = model(**inputs).logits
    logits.square().sum().backward()
    return logits.detach(), {name: weight.grad.clone() for name, weight in model.named_parameters() if weight.grad is not None}


@pytest.mark.parametrize("family", FIRST_TOKEN_MODELS)
def test_first_token_only_keeps_logits_and_gradients(family):
    model = tiny_model(family, outputs=3)
    inputs = batch(model)
    logits, gradients = logits_and_gradients(model, inputs)
    assert compute_first_token_only(model)
    fewer, same = logits_and_gradients(model, inputs)
    assert torch.allclose(fewer, logits, atol=1e-6)
    assert same.keys() == gradients.keys()
    largest = max(float(gradient.abs().max()) for gradient in gradients.values())
    for name, gradient in gradients.items():
        assert torch.allclose(same[name], gradient, rtol=1e-4, atol=1e-6 * largest), name


@pytest.mark.parametrize("family", FIRST_TOKEN_MODELS)
def test_first_token_only_restricts_only_the_last_layer(family):
    model = tiny_model(family, outputs=3)
    seen = []
    widths = {"intermediate_size", "hidden_dim"} & set(FAMILIES[family])
    wide = FAMILIES[family][widths.pop()]
    for module in model.modules():
        if isinstance(module, torch.nn.Linear) and module.out_features == wide:  # into the loader-forward part
            module.register_forward_hook(lambda _, __, output: seen.append(tuple(output.shape[:2])))
    compute_first_token_only(model)
    model(**batch(model))
    assert seen == [(3, 9), (3, 1)]


@pytest.mark.parametrize("family", ["albert", "modernbert"])
def test_first_token_only_leaves_unknown_model_types_unchanged(family):
    model = tiny_model(family, outputs=3)
    inputs = batch(model)
    logits, _ = logits_and_gradients(model, inputs)
    assert not compute_first_token_only(model)
    assert torch.equal(logits_and_gradients(model, inputs)[0], logits)


def test_first_token_only_leaves_a_single_layer_unchanged(monkeypatch):
    """DeBERTa has a convolution over the tokens behind its first layer."""
    one = {**FAMILIES["deberta-v2"], "num_hidden_layers": 1, "conv_kernel_size": 3, "conv_act": "gelu"}
    monkeypatch.setitem(FAMILIES, "deberta-v2", one)
    model = tiny_model("deberta-v2", outputs=3)
    inputs = batch(model)
    logits, _ = logits_and_gradients(model, inputs)
    assert not compute_first_token_only(model)
    assert torch.equal(logits_and_gradients(model, inputs)[0], logits)


def losses(outcome):
    return [row.loss for row in outcome.state.progress.logged]


@pytest.mark.parametrize(
    "changes",
    [{}, {"gradient_checkpointing": True}, {"compile": "aot_eager"}, {"lora": {"rank": 2, "target_modules": "all-linear"}}],
    ids=["plain", "checkpointing", "compiled", "lora"],
)
def test_first_token_only_gives_the_same_training_losses(trained, changes):
    narrow, whole = (trained(made.params(made.WITHOUT_DROPOUT, first_token_only=only, **changes)) for only in (True, False))
    assert (narrow.state.first_token_only, whole.state.first_token_only) == (True, False)
    assert losses(narrow) == pytest.approx(losses(whole), abs=1e-5)
    assert narrow.weights.keys() == whole.weights.keys()
