import subprocess
import sys

import pytest
from transformers import AutoConfig

from tests.conftest import ROOT
from tuneline.model.architectures import ARCHITECTURES, has_token_type_ids, token_limit


@pytest.mark.parametrize(
    "model_type", [name for name, architecture in ARCHITECTURES.items() if architecture.token_type_ids]
)
def test_listed_architectures_have_several_token_types_by_default(model_type):
    # Funnel compares the types of two tokens, and has no embedding of them
    assert getattr(AutoConfig.for_model(model_type), "type_vocab_size", 2) > 1


@pytest.mark.parametrize("model_type", ["distilbert", "roberta", "modernbert", "deberta-v2", "mpnet"])
def test_other_architectures_have_no_token_type_ids(model_type):
    assert not has_token_type_ids({"model_type": model_type})


def test_token_type_ids_can_be_disabled_in_the_configuration():
    assert has_token_type_ids({"model_type": "bert", "type_vocab_size": 2})
    assert not has_token_type_ids({"model_type": "bert", "type_vocab_size": 1})


@pytest.mark.parametrize(
    ("config", "limit"),
    [
        ({"model_type": "bert", "max_position_embeddings": 128}, 128),
        ({"model_type": "bert"}, None),
        ({"model_type": "unknown", "max_position_embeddings": 64}, 64),
        ({"model_type": "roberta", "max_position_embeddings": 514, "pad_token_id": 1}, 512),
        ({"model_type": "roberta", "max_position_embeddings": 130, "pad_token_id": 0}, 129),
        *(
            ({"model_type": name, "max_position_embeddings": 514, "pad_token_id": 1}, 512)
            for name in ("roberta-prelayernorm", "xmod", "ibert", "longformer", "luke", "esm")
        ),
        ({"model_type": "camembert", "max_position_embeddings": 514, "pad_token_id": None}, 512),
    ],
)
def test_token_limit_leaves_out_positions_up_to_the_padding_id(config, limit):
    assert token_limit(config) == limit


def test_import_of_architectures_and_tokenizer_loads_neither_torch_nor_transformers():
    code = (
        "import sys, tuneline.model.tokenizer; sys.exit(bool({'torch', 'transformers'} & set(sys.modules)))"
    )
    assert subprocess.run([sys.executable, "-c", code], cwd=ROOT, check=False).returncode == 0
