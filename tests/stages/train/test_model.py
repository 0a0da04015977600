import pytest
import torch
from safetensors.torch import load_file

from stages.train.inputs import check_fit, read_inputs
from stages.train.model import adapt, build_model
from tests.stages.train import made
from tuneline.errors import ParamsError
from tuneline.files.schemas import LabelSchema
from tuneline.params import ModelParams

LABELS = LabelSchema(made.NAMES)


def build(labels=LABELS, checkpoint=None, **config):
    return build_model(ModelParams(checkpoint=checkpoint, revision=None, config=config or dict(made.MODEL)), labels, made.tokenizer())


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory):
    """A trained body with a head for other classes, as a model on the hub has it."""
    folder = tmp_path_factory.mktemp("checkpoint")
    torch.manual_seed(0)
    build(LabelSchema(("no", "yes"))).save_pretrained(folder)
    return folder


def test_a_new_model_takes_vocabulary_padding_and_label_names_from_the_data():
    config = build().config
    assert (config.vocab_size, config.pad_token_id, config.num_labels) == (len(made.WORDS), 0, 3)
    assert config.id2label == {0: "billing", 1: "delivery", 2: "technical"}
    assert config.label2id == {"billing": 0, "delivery": 1, "technical": 2}
    assert config.problem_type == "single_label_classification"


def test_a_regression_has_one_output():
    config = build(LabelSchema(None)).config
    assert (config.num_labels, config.problem_type) == (1, "regression")


@pytest.mark.parametrize(
    ("config", "message"),
    [
        (
            {"model_type": "bert", "hiden_size": 8},
            r"model.config.hiden_size: the configuration of bert does not have this key\. Did you mean hidden_size\?",
        ),
        ({"model_type": "brt"}, r"model.config.model_type: transformers does not have a model type 'brt'"),
    ],
)
def test_a_typo_in_the_configuration_is_refused(config, message):
    with pytest.raises(ParamsError, match=message):
        build(**config)


def test_a_checkpoint_gives_its_body_and_a_new_head(checkpoint, capsys):
    model = build(checkpoint=str(checkpoint), attention_probs_dropout_prob=0.0)
    saved = load_file(checkpoint / "model.safetensors")
    name = "bert.encoder.layer.0.attention.self.query.weight"
    assert torch.equal(model.state_dict()[name], saved[name])
    assert model.classifier.weight.shape == (3, 16)
    assert model.config.attention_probs_dropout_prob == 0.0
    assert "new weights: classifier.bias, classifier.weight" in capsys.readouterr().out


def test_a_checkpoint_is_trained_in_float32_whatever_it_is_stored_in(checkpoint, tmp_path):
    build(checkpoint=str(checkpoint)).bfloat16().save_pretrained(tmp_path)
    assert {parameter.dtype for parameter in build(checkpoint=str(tmp_path)).parameters()} == {torch.float32}


def test_overrides_that_change_the_body_are_refused(checkpoint):
    with pytest.raises(ParamsError, match=r"lacks \d+ weights of the model.*bert\."):
        build(checkpoint=str(checkpoint), hidden_size=32)


def test_a_missing_checkpoint_is_one_clear_message(tmp_path):
    with pytest.raises(ParamsError, match=r"model.checkpoint: '.*nowhere' could not be loaded"):
        build(checkpoint=str(tmp_path / "nowhere"))


def test_pickled_weights_are_refused(checkpoint, tmp_path):
    (tmp_path / "config.json").write_bytes((checkpoint / "config.json").read_bytes())
    torch.save(load_file(checkpoint / "model.safetensors"), tmp_path / "pytorch_model.bin")
    with pytest.raises(ParamsError, match=r"could not be loaded: .*safetensors"):
        build(checkpoint=str(tmp_path))


@pytest.mark.parametrize(
    ("config", "message"),
    [
        ({"max_position_embeddings": 8}, r"it has 8 positions, but a row has \d+ tokens(.|\n)*tokenize.max_length to 8"),
        ({"vocab_size": 20}, r"its highest token id is 19, but the data contain the id 31"),
    ],
)
def test_data_that_do_not_fit_the_model_are_refused(project, config, message):
    inputs = read_inputs(made.params().train)
    with pytest.raises(ParamsError, match=message):
        check_fit(inputs, build(**{**made.MODEL, **config}).config)


def adapted(**train):
    return adapt(build(), made.params(**train).train)


def learning(model):
    return {name for name, parameter in model.named_parameters() if parameter.requires_grad}


def test_parts_can_be_frozen_by_name():
    model = adapted(freeze=["embeddings", "encoder.layer.0", "bert.pooler"])
    assert {name.split(".")[0] for name in learning(model)} == {"bert", "classifier"}
    assert {name for name in learning(model) if name.startswith("bert.")} == {
        name for name, _ in model.named_parameters() if name.startswith("bert.encoder.layer.1.")
    }


def test_frozen_weights_do_not_change(trained):
    torch.manual_seed(3)
    before = build().state_dict()
    after = trained(made.params(freeze=["embeddings"])).weights
    moved = {name for name in before if not torch.equal(before[name], after[name])}
    assert moved == {name for name in before if "embeddings" not in name}


@pytest.mark.parametrize(
    ("names", "message"),
    [
        (["encoder.layer.9"], r"the model has no module 'encoder.layer.9'(.|\n)*Choose from embeddings"),
        (["bert", "classifier"], "all parameters are frozen"),
    ],
)
def test_freeze_of_unknown_modules_or_everything_is_refused(names, message):
    with pytest.raises(ParamsError, match=message):
        adapted(freeze=names)


def test_lora_trains_adapters_and_the_head_and_leaves_a_plain_model(trained):
    torch.manual_seed(3)
    before = build().state_dict()
    outcome = trained(made.params(lora={"rank": 2, "alpha": 4, "target_modules": ["query", "value"]}, epochs=3))
    assert outcome.weights.keys() == before.keys()
    moved = {name for name in before if not torch.equal(before[name], outcome.weights[name])}
    assert moved == {name for name in before if name.endswith(("query.weight", "value.weight")) or name.startswith("classifier.")}
    assert sum(parameter.numel() for parameter in outcome.state.model.parameters() if parameter.requires_grad) < 400


def test_merged_adapters_predict_what_the_adapted_model_does(trained):
    outcome = trained(made.params(lora={"rank": 2, "target_modules": "all-linear"}, keep="last"))
    rows = outcome.state.sampler.epoch(0)[0]
    inputs = outcome.state.train_loader.inputs(rows)
    outcome.state.model.eval()
    outcome.model.eval()
    with torch.no_grad():
        assert torch.allclose(outcome.model(**inputs).logits, outcome.state.model(**inputs).logits, atol=1e-6)


def test_lora_error_lists_the_linear_layers():
    with pytest.raises(ParamsError, match=r"train.lora.target_modules(.|\n)*Linear layers of this model: .*query"):
        adapted(lora={"rank": 2, "target_modules": ["q_proj"]})
