import json
import shutil

import pytest
import torch
from safetensors.torch import load_file

from tests.small_pipeline import FAMILIES, SMALL, tiny_model
from tests.tuneline.training import tiny_task
from tuneline.core.params import ModelParams
from tuneline.core.runtime.errors import ParamsError
from tuneline.model.tasks import Classification, task_with_names
from tuneline.model.tokens.architectures import ARCHITECTURES
from tuneline.training.model import build_model, compute_first_token_only

LABELS = task_with_names(tiny_task.NAMES)


def build(labels=LABELS, base=None, **config):
    """Build a new model, or one from the checkpoint in the folder ``base``."""
    return build_and_name_drawn(labels, base, **config)[0]


def build_and_name_drawn(labels=LABELS, base=None, **config):
    if base is None:
        params = ModelParams(checkpoint=None, revision=None, config=config or dict(tiny_task.MODEL))
        return build_model(params, labels, tiny_task.tokenizer())
    return build_model(
        ModelParams(checkpoint="someone/bert", revision=None, config=config),
        labels,
        tiny_task.tokenizer(),
        base,
    )


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory):
    """A checkpoint with a head for other classes, like most checkpoints on a hub."""
    folder = tmp_path_factory.mktemp("checkpoint")
    torch.manual_seed(0)
    build(Classification(("no", "yes"))).save_pretrained(folder)
    return folder


def test_new_model_takes_vocabulary_padding_and_label_names_from_the_data():
    config = build().config
    assert (config.vocab_size, config.pad_token_id, config.num_labels) == (len(tiny_task.WORDS), 0, 3)
    assert config.id2label == {0: "billing", 1: "delivery", 2: "technical"}
    assert config.label2id == {"billing": 0, "delivery": 1, "technical": 2}
    assert config.problem_type == "single_label_classification"


@pytest.mark.parametrize(
    ("config", "message"),
    [
        (
            {"model_type": "bert", "hiden_size": 8},
            (
                r"model.config.hiden_size: the configuration of bert does not have this key\. Did you mean"
                r" hidden_size\?"
            ),
        ),
        ({"model_type": "brt"}, r"model.config.model_type: transformers does not have a model type 'brt'"),
    ],
)
def test_misspelled_model_config_key_is_refused_with_the_nearest_name(config, message):
    with pytest.raises(ParamsError, match=message):
        build(**config)


def test_checkpoint_gives_its_body_and_a_new_head(checkpoint, capsys):
    model, drawn = build_and_name_drawn(base=checkpoint, attention_probs_dropout_prob=0.0)
    saved = load_file(checkpoint / "model.safetensors")
    name = "bert.encoder.layer.0.attention.self.query.weight"
    assert torch.equal(model.state_dict()[name], saved[name])
    assert model.classifier.weight.shape == (3, 16)
    assert model.config.attention_probs_dropout_prob == 0.0
    assert drawn == {"classifier.bias", "classifier.weight"}
    assert "new weights: classifier.bias, classifier.weight" in capsys.readouterr().out


def saved_head(folder, names):
    """Save a checkpoint for classes, and return its head by the name of the class."""
    torch.manual_seed(1)
    model = build(task_with_names(names))
    model.save_pretrained(folder)
    return dict(zip(names, model.classifier.weight.detach(), strict=True))


def test_rows_of_a_loaded_head_are_matched_by_the_names_of_the_classes(tmp_path, capsys):
    rows = saved_head(tmp_path, ("technical", "billing", "delivery"))
    model, drawn = build_and_name_drawn(base=tmp_path)
    assert not drawn
    for index, name in enumerate(tiny_task.NAMES):
        assert torch.equal(model.classifier.weight[index], rows[name])
    assert "its rows were moved to theirs" in capsys.readouterr().out


def test_head_of_other_classes_starts_anew(tmp_path, capsys):
    """There are as many of them, so the shapes would fit."""
    rows = saved_head(tmp_path, ("toxic", "insult", "threat"))
    model, drawn = build_and_name_drawn(base=tmp_path)
    assert drawn == {"classifier.weight", "classifier.bias"}
    assert not any(torch.equal(own, row) for own in model.classifier.weight for row in rows.values())
    assert not model.classifier.bias.any()
    assert (
        "classifier.bias, classifier.weight (the checkpoint's head is of other classes)"
        in capsys.readouterr().out
    )


def test_checkpoint_in_bfloat16_is_trained_in_float32(checkpoint, tmp_path):
    build(base=checkpoint).bfloat16().save_pretrained(tmp_path)
    assert {parameter.dtype for parameter in build(base=tmp_path).parameters()} == {torch.float32}


def test_checkpoint_whose_configuration_does_not_fit_its_weights_is_refused(checkpoint, tmp_path):
    shutil.copytree(checkpoint, tmp_path, dirs_exist_ok=True)
    config = json.loads((tmp_path / "config.json").read_text())
    (tmp_path / "config.json").write_text(json.dumps({**config, "hidden_size": 32}))
    with pytest.raises(ParamsError, match=r"someone/bert lacks \d+"):
        build(base=tmp_path)


def test_pickled_weights_are_refused(checkpoint, tmp_path):
    (tmp_path / "config.json").write_bytes((checkpoint / "config.json").read_bytes())
    torch.save(load_file(checkpoint / "model.safetensors"), tmp_path / "pytorch_model.bin")
    with pytest.raises(ParamsError, match="safetensors"):
        build(base=tmp_path)


FIRST_TOKEN_MODELS = [name for name, architecture in ARCHITECTURES.items() if architecture.after_attention]


@pytest.fixture(autouse=True)
def additional_families(monkeypatch):
    """Add architectures that can be trained but are not in the tests of the export."""
    for name in ("camembert", "xlm-roberta"):
        monkeypatch.setitem(FAMILIES, name, FAMILIES["roberta"])
    monkeypatch.setitem(FAMILIES, "mpnet", {**SMALL, "pad_token_id": 1})


def batch(model):
    """Return a batch with rows of 9, 5 and 1 tokens."""
    lengths = torch.tensor([9, 5, 1])
    mask = (torch.arange(9) < lengths[:, None]).long()
    ids = torch.randint(5, 100, (3, 9), generator=torch.Generator().manual_seed(1))
    return {"input_ids": torch.where(mask.bool(), ids, model.config.pad_token_id), "attention_mask": mask}


def classifier(family):
    """Return a tiny model with the attention that training uses."""
    model = tiny_model(family, outputs=3)
    if model._supports_sdpa:
        model.set_attn_implementation("sdpa")
    return model


def logits_and_gradients(model, inputs):
    model.zero_grad()
    logits = model(**inputs).logits
    logits.square().sum().backward()
    return logits.detach(), {
        name: weight.grad.clone() for name, weight in model.named_parameters() if weight.grad is not None
    }


@pytest.mark.parametrize("family", FIRST_TOKEN_MODELS)
def test_first_token_only_keeps_logits_and_gradients(family):
    model = classifier(family)
    inputs = batch(model)
    logits, gradients = logits_and_gradients(model, inputs)
    compute_first_token_only(model)
    fewer, same = logits_and_gradients(model, inputs)
    assert torch.allclose(fewer, logits, atol=1e-6)
    assert same.keys() == gradients.keys()
    largest = max(float(gradient.abs().max()) for gradient in gradients.values())
    for name, gradient in gradients.items():
        assert torch.allclose(same[name], gradient, rtol=1e-4, atol=1e-6 * largest), name


@pytest.mark.parametrize("family", FIRST_TOKEN_MODELS)
def test_first_token_only_restricts_only_the_last_layer(family):
    model = classifier(family)
    shapes = []
    widths = {"intermediate_size", "hidden_dim"} & set(FAMILIES[family])
    wide = FAMILIES[family][widths.pop()]
    for module in model.modules():
        if (
            isinstance(module, torch.nn.Linear) and module.out_features == wide
        ):  # the first layer of the feed-forward block
            module.register_forward_hook(lambda _, __, output: shapes.append(tuple(output.shape[:2])))
    compute_first_token_only(model)
    model(**batch(model))
    assert shapes == [(3, 9), (3, 1)]


def test_first_token_only_leaves_a_single_layer_unchanged(monkeypatch):
    """DeBERTa has a convolution over the tokens after its first layer."""
    one = {**FAMILIES["deberta-v2"], "num_hidden_layers": 1, "conv_kernel_size": 3, "conv_act": "gelu"}
    monkeypatch.setitem(FAMILIES, "deberta-v2", one)
    model = classifier("deberta-v2")
    inputs = batch(model)
    logits, _ = logits_and_gradients(model, inputs)
    assert not compute_first_token_only(model)
    assert torch.equal(logits_and_gradients(model, inputs)[0], logits)
