"""Section ``train``."""

from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from stages.params.section import Section

Fraction = Annotated[float, Field(ge=0, lt=1)]
Positive = Annotated[int, Field(ge=1)]


class EarlyStopping(Section):
    """``train.early_stopping``: stop when the validation metric has not risen for a while."""

    patience: Positive
    """Evaluations without a gain."""
    min_gain: Annotated[float, Field(ge=0)] = 0.0


class TrainParams(Section):
    """``train``."""

    launch: str = "cpu"
    """Launch configuration: ``conf/accelerate/NAME.yaml``."""
    epochs: Positive | None = 3
    max_steps: Positive | None = None
    """Optimizer steps. One of ``epochs`` and ``max_steps`` is given, the other ``null``."""
    global_batch_size: Positive = 32
    """Examples in one optimizer step, over all processes."""
    micro_batch_size: Positive = 32
    """Examples in one forward pass of one process; accumulation follows from the two."""
    learning_rate: Annotated[float, Field(gt=0)] = 5e-4
    weight_decay: Annotated[float, Field(ge=0)] = 0.01
    bucket_window: Positive = 50
    """Groups of ``global_batch_size`` examples that are sorted by length together, so that a batch needs little padding.
    1: examples in plain random order."""
    evaluation_batch_size: Positive = 64
    """Examples in one forward pass of one process on the validation split."""
    schedule: str = "linear"
    """A name of ``transformers.SchedulerType``."""
    warmup_ratio: Fraction | None = 0.1
    warmup_steps: Annotated[int, Field(ge=0)] | None = None
    """At most one of ``warmup_ratio`` and ``warmup_steps`` is given."""
    max_grad_norm: Annotated[float, Field(gt=0)] | None = 1.0
    keep: Literal["best", "last"] = "best"
    """Which weights become the model: the best by ``metric`` on the validation split, or the last."""
    metric: str = "accuracy"
    """The validation metric by which ``best`` is chosen."""

    log_every_steps: Positive = 10
    """Optimizer steps between rows of the training curve; each is the mean since the row before."""

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        if (self.epochs is None) == (self.max_steps is None):
            raise ValueError("epochs: give one of epochs and max_steps, and null for the other")
        if self.warmup_ratio is not None and self.warmup_steps is not None:
            raise ValueError("warmup_ratio: give one of warmup_ratio and warmup_steps, and null for the other")
        if self.global_batch_size % self.micro_batch_size:
            raise ValueError(f"micro_batch_size: {self.micro_batch_size} does not divide global_batch_size {self.global_batch_size}")
        return self
