import pytest
from transformers import AutoConfig

from stages.tokenize.segments import WITH_SEGMENTS, has_segments


@pytest.mark.parametrize("model_type", sorted(WITH_SEGMENTS))
def test_every_listed_model_has_segments_by_default(model_type):
    assert AutoConfig.for_model(model_type).type_vocab_size > 1


@pytest.mark.parametrize("model_type", ["distilbert", "roberta", "modernbert", "deberta-v2", "mpnet"])
def test_others_have_none(model_type):
    assert not has_segments({"model_type": model_type})


def test_a_configuration_may_do_without():
    assert has_segments({"model_type": "bert", "type_vocab_size": 2})
    assert not has_segments({"model_type": "bert", "type_vocab_size": 1})
