"""What training on the CPU uses of torch beyond its public interface: a new version of torch that changes it
fails here."""

import pytest
import torch


def test_torch_has_the_operator_whose_masks_are_replaced_and_lets_it_be_restored():
    assert hasattr(torch.ops.aten.bernoulli_, "float")
    assert callable(torch.library.Library._destroy)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_torch_has_the_product_of_onednn(dtype):
    if dtype == torch.bfloat16 and not torch.ops.mkldnn._is_mkldnn_bf16_supported():
        pytest.skip("oneDNN does not compute bf16 on this processor")
    product = torch.ops.mkldnn._linear_pointwise(
        torch.ones(2, 3, dtype=dtype), torch.ones(4, 3, dtype=dtype), None, "none", [], ""
    )
    assert torch.equal(product, torch.full((2, 4), 3, dtype=dtype))
