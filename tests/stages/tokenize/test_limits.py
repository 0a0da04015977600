import pytest

from stages.tokenize.limits import check_length, positions_of
from tuneline.errors import ParamsError


def test_a_length_that_suits_passes():
    check_length(128, limit=128, special_tokens=3, texts=2)
    check_length(5, limit=None, special_tokens=3, texts=2)


def test_more_than_the_model_takes_is_refused():
    with pytest.raises(ParamsError, match=r"tokenize\.max_length: 129 is more than the 128 tokens"):
        check_length(129, limit=128, special_tokens=3, texts=2)


def test_no_room_for_a_token_of_each_text_is_refused():
    with pytest.raises(ParamsError, match="leaves no room"):
        check_length(4, limit=None, special_tokens=3, texts=2)


@pytest.mark.parametrize(
    ("config", "limit"),
    [
        ({"model_type": "bert", "max_position_embeddings": 128}, 128),
        ({"model_type": "bert"}, None),
        ({"model_type": "roberta", "max_position_embeddings": 514, "pad_token_id": 1}, 512),
        ({"model_type": "roberta", "max_position_embeddings": 130, "pad_token_id": 0}, 129),
    ],
)
def test_positions_of_a_model_made_from_scratch(config, limit):
    assert positions_of(config) == limit
