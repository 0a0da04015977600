"""What the classifier does not read, the last layer need not compute.

Classifiers of BERT's kind read one token of the last layer: the first. After the last attention nothing passes from token
to token any more, so the feed-forward part behind it (two thirds of a layer's arithmetic) and the attention's own output
(a twelfth) are computed for that token alone, forward and backward. Logits and gradients are those of the whole layer; dropout
draws fewer masks, so two runs with and without it differ as two seeds do.
"""

from typing import Any

from torch import Tensor, nn
from transformers import PreTrainedModel

from tuneline.architectures import architecture_of


def keep_first_token(model: PreTrainedModel) -> bool:
    """Makes the last layer compute the first token only, where the model is known to read no other.

    A hook does it: neither the names of the weights nor what is saved change.

    Args:
        model: Changed in place.

    Returns:
        Whether it was done. It is not where all layers are the same one (ALBERT), or where only one is there, behind which
        DeBERTa has a convolution.
    """
    module = architecture_of(model.config.to_dict()).after_attention
    layers = max((module for module in model.base_model.modules() if isinstance(module, nn.ModuleList)), key=len, default=nn.ModuleList())
    if module is None or len(layers) < 2:
        return False
    layers[-1].get_submodule(module).register_forward_pre_hook(_first_tokens)
    return True


def _first_tokens(_: nn.Module, inputs: tuple[Tensor, ...]) -> Any:
    return tuple(tensor[:, :1] for tensor in inputs)
