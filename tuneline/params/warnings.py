"""Parameters that are valid but probably a mistake. The stages that read them print a warning."""

from tuneline.params import Params
from tuneline.terminal import say

FINE_TUNING_RATE = 2.0e-4
"""Learning rate of Adam above which fine-tuning usually destroys what an encoder has learned."""


def find_warnings(params: Params) -> list[str]:
    """Return one line for each doubtful value."""
    train, warnings = params.train, []
    adam = train.optimizer in {"adamw", "adam"}
    if params.model.checkpoint is not None and adam and train.lora is None and train.learning_rate > FINE_TUNING_RATE:
        warnings.append(
            f"train.learning_rate: {train.learning_rate:g} suits training from scratch; fine-tuning a checkpoint with it usually destroys "
            "what the checkpoint has learned. Published values are 1e-5 to 5e-5, for small models up to 1e-4."
        )
    if params.model.checkpoint is None and train.lora is not None:
        warnings.append(
            "train.lora: model.checkpoint is null, and LoRA freezes the body of the new model, which is random. Set train.lora to null, to "
            "train all weights, or model.checkpoint."
        )
    return warnings


def print_warnings(stage: str, params: Params) -> None:
    """Print the warnings, with the name of the stage."""
    for warning in find_warnings(params):
        say(f"{stage}: WARNING: {warning}")
