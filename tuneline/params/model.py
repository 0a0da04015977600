"""Parameters of the section ``model``."""

from typing import Any, Self

from pydantic import model_validator

from tuneline.params.section import Section


class ModelParams(Section):
    """Section ``model``: the checkpoint to fine-tune, or the configuration of a new model."""

    checkpoint: str | None
    """Name on the Hugging Face Hub, or a folder. ``null``: train from scratch, with ``config``."""
    revision: str | None
    """Commit, tag or branch of the checkpoint on the hub."""
    config: dict[str, Any]
    """Keys of the transformers configuration; ``model_type`` selects its class. Vocabulary size, label names and padding id
    come from the data. With a checkpoint: overrides of its configuration, for example dropout."""

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        if self.checkpoint is None and "model_type" not in self.config:
            raise ValueError("config: without a checkpoint it needs 'model_type', for example 'bert'")
        return self
