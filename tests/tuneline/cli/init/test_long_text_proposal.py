import numpy as np
import pytest

from tuneline.cli.init.long_text_proposal import plan_long_texts
from tuneline.model.text_lengths import TextLengths

STRIDE = 64


def documents(*tokens):
    """Lengths of rows of one text with two special tokens."""
    return TextLengths.of_texts([np.array(tokens) - 2], 2)


@pytest.mark.parametrize(
    ("tokens", "kind", "max_windows"),
    [
        ([100] * 100, "truncate", None),
        ([100] * 96 + [2000] * 4, "truncate", None),
        ([100] * 95 + [2000] * 5, "windows", 2),
        ([900] * 100, "windows", 2),
        ([900] * 50 + [2000] * 50, "windows", 5),
        ([2000] * 96 + [6000] * 4, "windows", 5),
        ([100] * 90 + [9000] * 10, "windows", 16),
        ([9000] * 100, "head_tail", None),
    ],
)
def test_long_texts_are_read_in_windows_unless_they_are_few_or_too_long(tokens, kind, max_windows):
    proposal = plan_long_texts(documents(*tokens), 512, STRIDE)
    assert proposal.kind == proposal.params["tokenize.long_text"] == kind
    assert proposal.params.get("tokenize.windows.max_windows") == max_windows
    assert bool(proposal.reasons) == (kind != "truncate")


def test_reasons_have_the_share_of_rows_and_tokens_and_the_factor_of_time():
    facts, reason = plan_long_texts(documents(*[500] * 60, *[950] * 40), 512, STRIDE).reasons
    assert "40% of the rows are longer than 512 tokens" in facts
    assert f"{40 * 438 / (60 * 500 + 40 * 950):.0%} of all tokens do not fit" in facts
    assert "at most 2 of a text have all tokens" in reason
    assert f"{(60 * 500 + 40 * (950 + 66)) / (60 * 500 + 40 * 512):.1f} times" in reason


def test_reason_of_head_tail_is_the_time_of_windows():
    reason = plan_long_texts(documents(*[30_000] * 10), 512, STRIDE).reasons[1]
    assert "windows would take 16.0 times the time" in reason


def test_pairs_of_long_texts_have_no_windows():
    long = np.full(100, 2000)
    both = TextLengths.of_texts([long, long], 3)
    one = TextLengths.of_texts([long, np.full(100, 100)], 3)
    assert plan_long_texts(both, 512, STRIDE).kind == "head_tail"
    assert "both texts are long" in plan_long_texts(both, 512, STRIDE).reasons[1]
    assert plan_long_texts(one, 512, STRIDE).kind == "windows"


def test_windows_of_a_model_of_few_positions_share_fewer_tokens():
    params = plan_long_texts(documents(*[200] * 100), 64, STRIDE).params
    assert (params["tokenize.windows.stride"], params["tokenize.windows.max_windows"]) == (8, 4)
