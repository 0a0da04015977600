import subprocess
import sys

import pytest

from tests.conftest import ROOT
from tuneline.model.tokens.architectures import has_token_type_ids, token_limit


@pytest.mark.parametrize("model_type", ["distilbert", "roberta", "modernbert", "deberta-v2", "mpnet"])
def test_other_architectures_have_no_token_type_ids(model_type):
    assert not has_token_type_ids({"model_type": model_type})


@pytest.mark.parametrize(
    ("config", "limit"),
    [
        ({"model_type": "bert", "max_position_embeddings": 128}, 128),
        ({"model_type": "roberta", "max_position_embeddings": 514, "pad_token_id": 1}, 512),
        ({"model_type": "roberta", "max_position_embeddings": 130, "pad_token_id": 0}, 129),
        ({"model_type": "camembert", "max_position_embeddings": 514, "pad_token_id": None}, 512),
    ],
)
def test_token_limit_leaves_out_positions_up_to_the_padding_id(config, limit):
    assert token_limit(config) == limit


def test_import_of_architectures_and_tokenizer_loads_neither_torch_nor_transformers():
    code = (
        "import sys, tuneline.model.tokens.tokenizer\n"
        "sys.exit(bool({'torch', 'transformers'} & set(sys.modules)))"
    )
    assert subprocess.run([sys.executable, "-c", code], cwd=ROOT, check=False).returncode == 0
