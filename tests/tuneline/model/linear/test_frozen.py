import numpy as np
import pytest
import torch
from transformers import AutoModel, AutoTokenizer

from tests.checkpoints import write_checkpoint
from tuneline.model.linear.frozen import FrozenEncoder

TEXT = "the parcel is missing"


@pytest.mark.parametrize("pooling", ["mean", "cls"])
def test_vector_of_a_text_is_that_which_the_checkpoint_was_trained_with(tmp_path, pooling):
    folder = write_checkpoint(tmp_path / "checkpoint")
    if pooling == "cls":
        (folder / "1_Pooling").mkdir()
        (folder / "1_Pooling/config.json").write_text('{"pooling_mode": "cls"}')
    vectors = FrozenEncoder.load(folder, folder).vectors([TEXT, "help"])
    with torch.inference_mode():
        tokens = AutoTokenizer.from_pretrained(folder)(TEXT, return_tensors="pt")
        (states,) = AutoModel.from_pretrained(folder)(**tokens).last_hidden_state
    expected = states[0] if pooling == "cls" else states.mean(dim=0)
    np.testing.assert_allclose(vectors[0], expected.numpy(), atol=2e-6)
