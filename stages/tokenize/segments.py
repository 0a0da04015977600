"""Which models tell the first text of a pair from the second, so that they have ``token_type_ids``."""

from collections.abc import Mapping
from typing import Any

WITH_SEGMENTS = frozenset(
    {
        "albert", "bert", "big_bird", "convbert", "electra", "ernie", "fnet", "megatron-bert", "mobilebert", "nomic_bert",
        "nystromformer", "rembert", "roformer", "squeezebert",
    }
)  # fmt: skip
"""Values of ``model_type`` with more than one segment by default. Configuration classes would know, but importing one imports
torch. RoBERTa's kin is not here: its configuration says 2, its models were all made with 1."""


def has_segments(config: Mapping[str, Any]) -> bool:
    """Whether a model made from ``model.config`` has ``token_type_ids``."""
    return config.get("model_type") in WITH_SEGMENTS and config.get("type_vocab_size", 2) > 1
