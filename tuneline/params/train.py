"""Sections ``train`` and ``run``: how a model is trained, and how a training is saved."""

from typing import Annotated, Any, Literal, Self

from pydantic import Field, model_validator

from tuneline.params.functions import FunctionName
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
WITHOUT_WARMUP = ("constant", "reduce_lr_on_plateau", "greedy")
"""Schedules that transformers builds without a warmup, whatever is given."""


class EarlyStopping(Section):
    """``train.early_stopping``: stop when the validation metric no longer improves."""

    patience: Positive
    """Number of evaluations without improvement after which training stops."""
    min_gain: Annotated[float, Field(ge=0)] = 0.0
    """Smallest change of the metric that counts as an improvement; the change must be larger."""


class LoraParams(Section):
    """``train.lora``: train low-rank adapters, the head and what the checkpoint lacks; all is merged into the model before it is saved."""

    rank: Positive = 8
    """Rank of the adapters."""
    alpha: Positive = 16
    """Scale of the adapters: their output is multiplied by ``alpha / rank``."""
    dropout: Fraction = 0.0
    """Dropout rate of the adapters' input."""
    target_modules: list[str] | Literal["all-linear"] | None = None
    """Names of linear layers that get an adapter. ``null``: peft's default for the model type."""


class TrainParams(Section):
    """Section ``train``."""

    launch: Annotated[str, Field(pattern=r"^\w[\w.-]*$")]  # dvc.yaml has it in a path
    """Launch configuration: ``conf/accelerate/NAME.yaml``. ``auto``: all GPUs of the machine, or what else it has."""

    epochs: Positive | None
    """Passes over the train split. Set either ``epochs`` or ``max_steps``, and the other to ``null``."""
    max_steps: Positive | None
    """Optimizer steps of the whole training. Set either ``epochs`` or ``max_steps``, and the other to ``null``."""
    global_batch_size: Positive
    """Examples in one optimizer step, over all processes."""
    micro_batch_size: Positive
    """Examples in one forward pass of one process; must divide ``global_batch_size``. Gradient accumulation follows from the two and
    the number of processes."""
    bucket_window: Positive
    """Maximum number of batches of ``global_batch_size`` examples that are sorted by length together, which reduces padding.
    1: random order without length bucketing."""

    optimizer: Literal["adamw", "adam", "adafactor", "sgd"]
    """Optimizer. ``adamw`` and ``adam`` use torch's fused kernel. ``adafactor`` follows ``learning_rate`` and ``schedule``, without its
    own relative step size."""
    learning_rate: PositiveFloat
    """Learning rate after the warmup, from which ``schedule`` changes it. Usual for fine-tuning: 1.0e-5 to 5.0e-5."""
    weight_decay: Annotated[float, Field(ge=0)]
    """Weight decay factor of matrices; biases and norms do not decay. 0: no decay."""
    betas: Annotated[list[Fraction], Field(min_length=2, max_length=2)]
    """Moment decay rates of Adam and AdamW."""
    epsilon: PositiveFloat
    """Denominator offset of Adam and AdamW."""
    momentum: Fraction
    """Momentum of SGD."""
    max_grad_norm: PositiveFloat | None
    """Norm to which larger gradients are clipped. ``null``: no clipping."""
    schedule: Schedule
    """Learning rate schedule: a value of ``transformers.SchedulerType``. ``constant``, ``reduce_lr_on_plateau`` and ``greedy`` have no
    warmup."""
    schedule_options: dict[str, Any]
    """Keyword arguments of the schedule's function in ``transformers.optimization``, for example ``{num_cycles: 2}``."""
    warmup_ratio: Fraction | None
    """Warmup as a fraction of all optimizer steps, rounded up. Set at most one of ``warmup_ratio`` and ``warmup_steps``; with both
    ``null``, there is no warmup."""
    warmup_steps: Annotated[int, Field(ge=0)] | None
    """Optimizer steps of the warmup. Set at most one of ``warmup_ratio`` and ``warmup_steps``."""

    loss: str | None
    """Function that computes the loss of each example: ``project/FILE.py:FUNCTION`` (docs/custom-loss.md). ``null``: cross-entropy,
    or squared error in a regression."""
    loss_options: dict[str, Any]
    """Other arguments of that function, for example ``{gamma: 2.0}``."""
    label_smoothing: Fraction
    """Fraction of the target that is spread evenly over all classes. 0: none. Classification only."""
    class_weights: Literal["balanced"] | dict[str, PositiveFloat] | None
    """Weights of the classes in the loss. ``balanced``: every class has the same total weight. A mapping: a weight by class name;
    classes not named weigh 1. ``null``: every example weighs the same. Classification only."""
    freeze: list[str]
    """Names of modules that are not trained, for example ``[embeddings, encoder.layer.0]``. Leave it empty with ``lora``."""
    lora: LoraParams | None
    """Train low-rank adapters, the head and what the checkpoint lacks, and merge the adapters into the model before it is saved.
    ``null``: train all parameters except those of ``freeze``."""

    mixed_precision: Literal["no", "fp16", "bf16"] | None
    """Precision of the forward pass. ``no``: float32. ``fp16`` needs a GPU. ``null``: the precision of the launch configuration; with
    ``launch: auto``, bf16 or fp16 on a GPU and float32 elsewhere."""
    tf32: bool
    """Multiply float32 matrices in TF32 on CUDA: faster, with 10 bits of mantissa. No effect on other devices."""
    gradient_checkpointing: bool
    """Recompute activations in the backward pass: less memory, about a third more time."""
    first_token_only: bool
    """Compute the last layer for the first token only, where the model type's classifier reads no other: the same logits and
    gradients with less work. ``false``: compute the whole layer."""
    compile: str | None
    """Backend of ``torch.compile``, for example ``inductor``. ``null``: do not compile."""

    evaluate_every_steps: Positive | None
    """Optimizer steps between evaluations. ``null``: one evaluation at the end of each epoch. There is always one before the first
    step."""
    evaluation_batch_size: Positive
    """Examples in one forward pass of one process on the validation split. It is halved when memory runs out."""
    keep: Literal["best", "last"]
    """Weights to publish: the best by ``metric`` on the validation split, or the last."""
    metric: str
    """Validation metric that determines the best weights: one of the task in ``tuneline/metrics.py`` that is not of probabilities, or
    ``project/FILE.py:FUNCTION`` (docs/custom-loss.md)."""
    early_stopping: EarlyStopping | None
    """Stop when ``metric`` on the validation split no longer improves. ``null``: train to the end."""
    log_every_steps: Positive
    """Optimizer steps between rows of the training curve; the loss of a row is the mean since the previous row."""

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        if (self.epochs is None) == (self.max_steps is None):
            raise ValueError("epochs: give one of epochs and max_steps, and null for the other")
        if self.warmup_ratio is not None and self.warmup_steps is not None:
            raise ValueError("warmup_ratio: give one of warmup_ratio and warmup_steps, and null for the other")
        if self.schedule in WITHOUT_WARMUP and (self.warmup_ratio or self.warmup_steps):
            key = "warmup_ratio" if self.warmup_ratio else "warmup_steps"
            raise ValueError(
                f"{key}: the schedule {self.schedule!r} has no warmup; set it to null, or schedule to constant_with_warmup or linear"
            )
        if self.global_batch_size % self.micro_batch_size:
            raise ValueError(f"micro_batch_size: {self.micro_batch_size} does not divide global_batch_size {self.global_batch_size}")
        if self.lora is not None and self.freeze:
            raise ValueError("freeze: with lora everything but the adapters and the head is frozen already; leave it empty")
        return self

    @model_validator(mode="after")
    def _consistent_functions(self) -> Self:
        if self.loss is not None:
            FunctionName.parse("loss", self.loss)
        if self.loss is None and self.loss_options:
            raise ValueError("loss_options: they are for a function in train.loss, which is null; leave them empty: {}")
        if self.loss is not None and self.label_smoothing:
            raise ValueError("label_smoothing: it is part of cross-entropy, which train.loss replaces; set it to 0.0")
        if FunctionName.matches(self.metric):
            FunctionName.parse("metric", self.metric)
        return self


class RunParams(Section):
    """Section ``run``: how a training is saved and watched, and where work is done. It changes no out: a change runs no stage again."""

    checkpoint_every_steps: Positive | None
    """Optimizer steps between checkpoints. A training that was killed resumes from the last one. ``null``: none by steps."""
    checkpoint_every_minutes: PositiveFloat | None
    """Minutes between checkpoints, in addition to those by steps and epochs. ``null``: none by time."""
    checkpoint_every_epochs: Positive | None
    """Epochs between checkpoints, in addition to those by steps and time. ``null``: none by epochs."""
    keep_checkpoints: Positive
    """Number of last checkpoints kept during a run, in addition to the best."""
    trackers: list[Literal["dvclive", "tensorboard"]]
    """Trackers of live curves, in ``reports/live/``. ``tensorboard`` must be installed: ``pip install '.[tensorboard]'``."""
    engine: Literal["local", "ray"]
    """Where ``tokenize``, ``validate`` and the flow ``score`` do their work on shards. ``local``: in the process of the stage. ``ray``: on
    the workers of a Ray cluster, the one that ``RAY_ADDRESS`` names or one that is started on this machine; it must be installed:
    ``pip install '.[ray]'``. The outs have the same bytes."""
    workers: Positive | None
    """ray: shards that are worked on at the same time. ``null``: one for each CPU of the cluster."""
