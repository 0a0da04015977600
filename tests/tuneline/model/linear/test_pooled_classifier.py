import json

import numpy as np
import onnx
import onnxruntime
import pytest
import torch
from tokenizers import processors
from transformers import AutoModel, AutoModelForSequenceClassification

from tests.small_pipeline import FAMILIES, tiny_model
from tests.tuneline.training.tiny_task import tokenizer
from tuneline.core.runtime.errors import ParamsError
from tuneline.model.linear.pooled_classifier import (
    PairTemplate,
    PooledClassifier,
    load_classifier,
    pooled,
)
from tuneline.onnx.graph import to_onnx
from tuneline.onnx.int8 import to_dynamic_int8

CLS, SEP, PAD = 2, 3, 0
TEXTS = [([10, 11, 12, 13], [20, 21]), ([14], [22, 23, 24, 25, 26]), ([15, 16], [27])]
QUICK = ("bert", "roberta", "modernbert")
EVERY_FAMILY = [
    pytest.param(family, marks=[] if family in QUICK else pytest.mark.slow) for family in FAMILIES
]


def classifier(family="bert", pair=True, pooling="mean") -> PooledClassifier:
    encoder = tiny_model(family, 3, names=("a", "b", "c")).base_model
    torch.manual_seed(1)
    return PooledClassifier(
        encoder, PairTemplate(SEP, 2 if family == "roberta" else 1) if pair else None, pooling
    ).eval()


def padded(rows, padding=PAD, extra=0):
    """Return the model inputs of rows, with ``extra`` columns of padding."""
    ids = torch.full((len(rows), max(map(len, rows)) + extra), padding)
    mask = torch.zeros_like(ids)
    for row, tokens in enumerate(rows):
        ids[row, : len(tokens)], mask[row, : len(tokens)] = torch.tensor(tokens), 1
    return {"input_ids": ids, "attention_mask": mask}


def joined(model, extra=0):
    """Return pairs as the tokenizer of the model's family joins them."""
    between = [SEP] * model.template.count
    rows = [[CLS, *first, *between, *second, SEP] for first, second in TEXTS]
    return padded(rows, model.config.pad_token_id or 0, extra)


def alone(model, position):
    return padded([[CLS, *texts[position], SEP] for texts in TEXTS], model.config.pad_token_id or 0)


@pytest.mark.parametrize("pooling", ["mean", "cls"])
def test_vector_of_a_text_is_the_mean_of_its_tokens_or_the_first(pooling):
    model = classifier(pair=False, pooling=pooling)
    inputs = alone(model, 0)
    with torch.inference_mode():
        features = model.features(**inputs)
        for row, vector in enumerate(features):
            tokens = inputs["input_ids"][row : row + 1, : inputs["attention_mask"][row].sum()]
            (states,) = model.encoder(tokens).last_hidden_state
            expected = states[0] if pooling == "cls" else states.mean(dim=0)
            torch.testing.assert_close(vector, expected, atol=2e-6, rtol=1e-5)


@pytest.mark.parametrize("family", EVERY_FAMILY)
@pytest.mark.parametrize("pooling", ["mean", "cls"])
def test_features_of_a_pair_are_those_of_two_texts_encoded_alone(family, pooling):
    model = classifier(family, pooling=pooling)
    with torch.inference_mode():
        first, second = (pooled(model.encoder, pooling, **alone(model, position)) for position in (0, 1))
        features = model.features(**joined(model))
    assert features.shape == (3, 4 * 16 + 1)
    cosine = torch.nn.functional.cosine_similarity(first, second).unsqueeze(1)
    expected = torch.cat([first, second, (first - second).abs(), first * second, cosine], dim=1)
    torch.testing.assert_close(features, expected, atol=2e-5, rtol=1e-4)


@pytest.mark.parametrize(("pair", "pooling"), [(True, "mean"), (False, "cls")])
def test_saved_model_is_loaded_with_its_head_and_the_encoder_by_transformers(tmp_path, pair, pooling):
    model = classifier(pair=pair, pooling=pooling)
    model.save_pretrained(tmp_path, model.state_dict())
    assert {path.name for path in tmp_path.iterdir()} == {
        "config.json",
        "head.safetensors",
        "model.encoder.safetensors",
    }
    config = json.loads((tmp_path / "config.json").read_text())
    assert config["pooled_head"] == {
        "pooling": pooling,
        "pair": {"separator": SEP, "count": 1} if pair else None,
        "frozen": True,
    }
    assert config["id2label"] == {"0": "a", "1": "b", "2": "c"}
    loaded, inputs = load_classifier(tmp_path, "eager"), joined(model) if pair else alone(model, 0)
    assert not loaded.training
    with torch.inference_mode():
        torch.testing.assert_close(loaded(**inputs).logits, model(**inputs).logits)
        plain, info = AutoModel.from_pretrained(tmp_path, variant="encoder", output_loading_info=True)
        torch.testing.assert_close(
            pooled(plain.eval(), pooling, **alone(model, 0)),
            pooled(model.encoder, pooling, **alone(model, 0)),
        )
    assert not info["missing_keys"]
    assert not info["unexpected_keys"]
    with pytest.raises(OSError, match="no file named"):  # and not a random head
        AutoModelForSequenceClassification.from_pretrained(tmp_path)


@pytest.mark.parametrize(
    "family", [pytest.param(name, marks=[] if name == "bert" else pytest.mark.slow) for name in FAMILIES]
)
@pytest.mark.parametrize("pooling", ["mean", "cls"])
def test_onnx_logits_of_pairs_are_those_of_torch_and_int8_leaves_the_head(family, pooling):
    model = classifier(family, pooling=pooling)
    exported = to_onnx(model, ["input_ids", "attention_mask", "token_type_ids"], opset=20)
    session = onnxruntime.InferenceSession(exported.SerializeToString())
    assert [value.name for value in session.get_inputs()] == ["input_ids", "attention_mask"]
    for extra in (0, 3):
        inputs = joined(model, extra)
        with torch.inference_mode():
            expected = model(**inputs).logits.numpy()
        (logits,) = session.run(["logits"], {name: tensor.numpy() for name, tensor in inputs.items()})
        np.testing.assert_allclose(logits, expected, atol=2e-6)
    kept = {
        one.name
        for one in to_dynamic_int8(exported).graph.initializer
        if one.data_type == onnx.TensorProto.FLOAT
    }
    assert "head.weight" in kept


@pytest.mark.parametrize(("single", "pair"), [("$A", "$A $B")])
def test_tokenizer_that_joins_texts_in_another_way_is_refused(single, pair):
    words = tokenizer()
    special = [("[CLS]", CLS), ("[SEP]", SEP)]
    words.backend_tokenizer.post_processor = processors.TemplateProcessing(
        single=single, pair=pair, special_tokens=special
    )
    with pytest.raises(ParamsError, match=r"model\.head: 'frozen'"):
        PairTemplate.of(words)
