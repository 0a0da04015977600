"""Dropout masks on the CPU."""

import pytest
import torch
from torch.nn.functional import dropout, scaled_dot_product_attention

from stages.train.cpu.dropout import fast_dropout_masks


def dropped(rate: float, threads: int = 1) -> torch.Tensor:
    torch.manual_seed(3)
    torch.set_num_threads(threads)
    try:
        return dropout(torch.ones(300, 7, 11), rate)
    finally:
        torch.set_num_threads(1)


def test_dropout_masks_follow_from_the_seed_and_have_the_rate():
    torchs = dropped(0.1)
    with fast_dropout_masks():
        ours = dropped(0.1)
        assert torch.equal(dropped(0.1, threads=2), ours)
        assert (ours == 0).float().mean() == pytest.approx(0.1, abs=0.006), (
            "23,100 elements: three standard deviations"
        )
        assert ours.unique().tolist() == pytest.approx([0.0, 1 / 0.9])
        assert not torch.equal(dropout(torch.ones(300, 7, 11), 0.1), ours), "the next mask is another one"
        assert torch.equal(dropped(0.0), torch.ones(300, 7, 11))
        assert torch.equal(dropped(1e-6), torch.ones(300, 7, 11) / (1 - 1e-6)), "rounded to 0"
    assert not torch.equal(torchs, ours)
    assert torch.equal(dropped(0.1), torchs), "torch draws again"


def test_dropout_of_attention_is_drawn_as_well():
    def attended() -> torch.Tensor:
        torch.manual_seed(3)
        rows = torch.zeros(1, 1, 8, 8)
        return scaled_dot_product_attention(rows, rows, torch.eye(8)[None, None], dropout_p=0.5)

    torchs = attended()
    with fast_dropout_masks():
        assert not torch.equal(attended(), torchs)
