"""Section ``train``."""

from typing import Annotated, Any, Literal, Self

from pydantic import Field, model_validator

from tuneline.params.section import Section

Fraction = Annotated[float, Field(ge=0, lt=1)]
Positive = Annotated[int, Field(ge=1)]
PositiveFloat = Annotated[float, Field(gt=0)]
Schedule = Literal[
    "linear",
    "cosine",
    "cosine_with_restarts",
    "polynomial",
    "constant",
    "constant_with_warmup",
    "inverse_sqrt",
    "reduce_lr_on_plateau",
    "cosine_with_min_lr",
    "cosine_warmup_with_min_lr",
    "warmup_stable_decay",
    "greedy",
]


class EarlyStopping(Section):
    """``train.early_stopping``: stop when the validation metric has not become better for a while."""

    patience: Positive
    """Evaluations without a gain."""
    min_gain: Annotated[float, Field(ge=0)] = 0.0
    """What counts as a gain must be more than this."""


class LoraParams(Section):
    """``train.lora``: train low-rank adapters and the head only; they are merged into the model before it is saved."""

    rank: Positive = 8
    alpha: Positive = 16
    dropout: Fraction = 0.0
    target_modules: list[str] | Literal["all-linear"] | None = None
    """Names of linear layers. ``null``: peft's choice for this kind of model."""


class TrainParams(Section):
    """``train``."""

    launch: str = "cpu"
    """Launch configuration: ``conf/accelerate/NAME.yaml``."""

    epochs: Positive | None = 5
    max_steps: Positive | None = None
    """Optimizer steps. One of ``epochs`` and ``max_steps`` is given, the other ``null``."""
    global_batch_size: Positive = 32
    """Examples in one optimizer step, over all processes."""
    micro_batch_size: Positive = 32
    """Examples in one forward pass of one process; accumulation follows from the two and the number of processes."""
    bucket_window: Positive = 50
    """Most groups of ``global_batch_size`` examples that are sorted by length together, so that a batch needs little padding.
    1: examples in plain random order."""

    optimizer: Literal["adamw", "adam", "adafactor", "sgd"] = "adamw"
    learning_rate: PositiveFloat = 7e-4
    weight_decay: Annotated[float, Field(ge=0)] = 0.01
    """Of matrices; biases and norms do not decay."""
    betas: Annotated[list[Fraction], Field(min_length=2, max_length=2)] = [0.9, 0.999]
    """Of Adam and AdamW."""
    epsilon: PositiveFloat = 1e-8
    """Of Adam and AdamW."""
    momentum: Fraction = 0.9
    """Of SGD."""
    max_grad_norm: PositiveFloat | None = 1.0
    """Longer gradients are scaled down to this norm. ``null``: as long as they are."""
    schedule: Schedule = "linear"
    """Of the learning rate: a name of ``transformers.SchedulerType``."""
    schedule_options: dict[str, Any] = Field(default_factory=dict)
    """Keyword arguments of the schedule's function in ``transformers.optimization``, for example ``{num_cycles: 2}``."""
    warmup_ratio: Fraction | None = 0.1
    warmup_steps: Annotated[int, Field(ge=0)] | None = None
    """At most one of ``warmup_ratio`` and ``warmup_steps`` is given."""

    label_smoothing: Fraction = 0.0
    class_weights: Literal["balanced"] | dict[str, PositiveFloat] | None = None
    """``balanced``: each class weighs the same in all. By name: those not named weigh 1."""
    freeze: list[str] = []
    """Parts of the model that do not learn, for example ``[embeddings, encoder.layer.0]``."""
    lora: LoraParams | None = None

    mixed_precision: Literal["no", "fp16", "bf16"] | None = None
    """``null``: as the launch configuration says."""
    tf32: bool = True
    """On CUDA: float32 matrices are multiplied in TF32."""
    gradient_checkpointing: bool = False
    """Activations are computed twice and kept once: less memory, about a third more time."""
    first_token_only: bool = True
    """The last layer computes only the token that the classifier reads, where the kind of model allows it: the same logits
    and gradients for less work. ``false``: the whole layer."""
    compile: str | None = None
    """A backend of ``torch.compile``: ``inductor``, say."""

    evaluate_every_steps: Positive | None = None
    """``null``: at the end of each epoch."""
    evaluation_batch_size: Positive = 64
    """Examples in one forward pass of one process on the validation split."""
    keep: Literal["best", "last"] = "best"
    """Which weights become the model: the best by ``metric`` on the validation split, or the last."""
    metric: str = "accuracy"
    """The validation metric by which ``best`` is chosen. accuracy, f1, matthews_correlation, pearson, spearmanr: more is
    better; loss, mse: less is."""
    early_stopping: EarlyStopping | None = None
    log_every_steps: Positive = 10
    """Optimizer steps between rows of the training curve; each is the mean since the row before."""

    # What follows changes nothing in what comes out, so dvc.yaml does not list it: changing it does not train again.
    checkpoint_every_steps: Positive | None = 100
    checkpoint_every_minutes: PositiveFloat | None = None
    checkpoint_every_epochs: Positive | None = None
    keep_checkpoints: Positive = 2
    """How many of the last checkpoints stay while a run goes on, beside the best."""
    trackers: list[Literal["dvclive", "tensorboard"]] = ["dvclive"]
    """Live curves, in ``reports/live/``."""

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        if (self.epochs is None) == (self.max_steps is None):
            raise ValueError("epochs: give one of epochs and max_steps, and null for the other")
        if self.warmup_ratio is not None and self.warmup_steps is not None:
            raise ValueError("warmup_ratio: give one of warmup_ratio and warmup_steps, and null for the other")
        if self.global_batch_size % self.micro_batch_size:
            raise ValueError(f"micro_batch_size: {self.micro_batch_size} does not divide global_batch_size {self.global_batch_size}")
        if self.lora is not None and self.freeze:
            raise ValueError("freeze: with lora everything but the adapters and the head is frozen already; leave it empty")
        return self
