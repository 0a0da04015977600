import json

import pytest

from tuneline.model.tokens.architectures import POOLING, pooling_of


@pytest.mark.parametrize(
    ("values", "pooling"),
    [
        ({"pooling_mode": "cls"}, "cls"),
        ({"pooling_mode": "mean"}, "mean"),
        ({"pooling_mode": ["cls", "mean"]}, "mean"),
        ({"pooling_mode_cls_token": True, "pooling_mode_mean_tokens": False}, "cls"),
        ({"pooling_mode_cls_token": False, "pooling_mode_mean_tokens": True}, "mean"),
        ({"pooling_mode_cls_token": True, "pooling_mode_mean_tokens": True}, "mean"),
        ({"pooling_mode": "lasttoken"}, "mean"),
    ],
)
def test_pooling_is_that_of_both_formats_of_sentence_transformers(tmp_path, values, pooling):
    (tmp_path / POOLING).parent.mkdir()
    (tmp_path / POOLING).write_text(json.dumps(values))
    assert pooling_of(tmp_path) == pooling


def test_checkpoint_without_the_file_has_the_mean(tmp_path):
    assert pooling_of(tmp_path) == "mean"
