"""Section ``model``."""

from typing import Any, Self

from pydantic import Field, model_validator

from tuneline.params.section import Section


class ModelParams(Section):
    """``model``: a checkpoint to start from, or the configuration of a new model."""

    checkpoint: str | None = None
    """Name on the hub, or a folder. ``null``: from scratch, with ``config``."""
    revision: str | None = None
    config: dict[str, Any] = Field(default_factory=dict)
    """Keys of the transformers configuration; ``model_type`` picks its class. Vocabulary size, label names and padding
    come from the data. With a checkpoint: overrides of its own configuration (dropout, say)."""

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        if self.checkpoint is None and "model_type" not in self.config:
            raise ValueError("config: without a checkpoint it needs 'model_type', for example 'bert'")
        return self
