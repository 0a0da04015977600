"""Sections ``train`` and ``run``: how a model is trained, and how a training is saved."""

from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from tuneline.core.params.section import Fraction, FunctionName, Positive, PositiveFloat, Section

Schedule = Literal["linear", "cosine", "polynomial", "inverse_sqrt", "constant"]


class EarlyStopping(Section):
    """``train.early_stopping``: stop when the validation metric no longer improves."""

    patience: Positive
    """Number of evaluations without improvement after which training stops."""
    min_gain: Annotated[float, Field(ge=0)] = 0.0
    """Smallest change of the metric that counts as an improvement; the change must be larger."""


class LoraParams(Section):
    """``train.lora``: train low-rank adapters, the head and what the checkpoint lacks."""

    rank: Positive = 8
    """Rank of the adapters."""
    alpha: Positive = 16
    """Scale of the adapters: their output is multiplied by ``alpha / rank``."""
    dropout: Fraction = 0.0
    """Dropout rate of the adapters' input."""
    target_modules: list[str] | Literal["all-linear"] | None = None
    """Names of linear layers that get an adapter. ``null``: peft's default for the model type."""


class ThresholdParams(Section):
    """Several labels per row: the probability above which a row has a label, chosen on validation.

    The thresholds are stored in the model, and used wherever it predicts.
    """

    choose: Literal["f1", "precision", "recall", "half"] = "f1"
    """``f1``: the best F1 and whole rows. ``precision``, ``recall``: as many, or as few, rows as the
    ``target`` allows. Rows of all labels choose what few rows of one cannot. ``half``: 0.5, without a choice.
    """
    target: Fraction | None = None
    """precision, recall: the smallest value on validation, for example 0.9."""
    at_least_one: bool = False
    """A row without a label above its threshold gets the most probable one."""

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        has_target = self.choose in ("precision", "recall")
        if has_target and self.target is None:
            raise ValueError(f"target: {self.choose} needs the smallest value, for example 0.9")
        if not has_target and self.target is not None:
            raise ValueError(
                f"target: {self.choose} has none; set it to null, or choose to precision or recall"
            )
        return self


class TrainParams(Section):
    """Section ``train``."""

    launch: Annotated[str, Field(pattern=r"^\w[\w.-]*$")] = "auto"  # dvc.yaml has it in a path
    """``auto``: all GPUs of the machine, or what else it has; else ``conf/accelerate/NAME.yaml``."""

    seed: Annotated[int, Field(ge=0, lt=2**32)] | None = None
    """Seed of the training alone: new weights, order of examples, dropout.

    The data stay the same. ``null``: the one of the pipeline.
    """
    epochs: Positive | None = 5
    """Passes over the train split. Set this or ``max_steps``, and the other to ``null``."""
    max_steps: Positive | None = None
    """Optimizer steps of the whole training. Set this or ``epochs``, and the other to ``null``."""
    global_batch_size: Positive = 32
    """Examples in one optimizer step, over all processes."""
    micro_batch_size: Positive = 32
    """Examples in one forward pass of one process; must divide ``global_batch_size``.

    Gradient accumulation follows from both. With ``tokenize.long_text: windows``, it counts windows; those of
    one example stay together.
    """
    learning_rate: PositiveFloat = 7.0e-4
    """Learning rate after the warmup.

    Usual for fine-tuning: 1.0e-5 to 5.0e-5.
    """
    weight_decay: Annotated[float, Field(ge=0)] = 0.01
    """Weight decay factor of matrices. 0: no decay."""
    schedule: Schedule = "linear"
    """Learning rate schedule of transformers, after the warmup."""
    warmup_ratio: Fraction = 0.1
    """Warmup as a fraction of all optimizer steps, rounded up. 0: none."""

    loss: str | None = None
    """Loss of each example: ``project/FILE.py:FUNCTION``. ``null``: cross-entropy or squared error."""
    label_smoothing: Fraction = 0.0
    """Fraction of the target that is spread evenly over all classes. 0: none. Not for a regression."""
    class_weights: Literal["balanced"] | dict[str, PositiveFloat] | None = None
    """Weights of the classes in the loss: ``balanced``, or by class name.

    ``balanced``: the same total weight for each. Classes that a mapping does not name weigh 1. ``null``:
    every example weighs the same. Not for a regression.
    """
    thresholds: ThresholdParams = ThresholdParams()
    """Several labels per row: how their thresholds are chosen."""
    lora: LoraParams | None = None
    """Train low-rank adapters, which are merged into the saved model. ``null``: train all parameters."""

    mixed_precision: Literal["no", "fp16", "bf16", "auto"] | None = None
    """Precision of the forward pass.

    ``no``: float32. ``fp16`` needs a GPU. ``null``: as the launch configuration; with ``launch: auto``,
    bf16 or fp16 on a GPU and float32 elsewhere. ``auto``, with ``launch: auto`` or ``cpu``: the same, and
    bf16 on CPUs that compute it (AVX512-BF16, AMX), if a measured step is faster.
    """
    gradient_checkpointing: bool = False
    """Recompute activations in the backward pass: less memory, more time."""
    evaluate_every_steps: Positive | None = None
    """Optimizer steps between evaluations. ``null``: one at the end of each epoch."""
    keep: Literal["best", "last"] = "best"
    """Weights to publish: the best by ``metric`` on validation, or the last."""
    metric: str = "accuracy"
    """Validation metric of the best weights: one of the task, or ``project/FILE.py:FUNCTION``.

    A score with an interval decides everywhere else, too: verdict, choice of the head, comparison of exported
    models, sweeps and promotion. Instead of a loss, an error or a function, accuracy decides there, macro F1
    (multilabel) or Pearson's r (regression).
    """
    early_stopping: EarlyStopping | None = None
    """Stop when ``metric`` on validation no longer improves. ``null``: train to the end."""

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        if (self.epochs is None) == (self.max_steps is None):
            raise ValueError("epochs: give one of epochs and max_steps, and null for the other")
        if self.global_batch_size % self.micro_batch_size:
            raise ValueError(
                f"micro_batch_size: {self.micro_batch_size} does not divide global_batch_size"
                f" {self.global_batch_size}"
            )
        if self.mixed_precision == "auto" and self.launch not in ("auto", "cpu"):
            raise ValueError(
                f"mixed_precision: auto is for the launch auto and cpu, and launch is {self.launch}; set it"
                " to null, no, fp16 or bf16"
            )
        return self

    @model_validator(mode="after")
    def _consistent_functions(self) -> Self:
        if self.loss is not None:
            FunctionName.parse("loss", self.loss)
        if self.loss is not None and self.label_smoothing:
            raise ValueError(
                "label_smoothing: it is part of cross-entropy, which train.loss replaces; set it to 0.0"
            )
        if FunctionName.matches(self.metric):
            FunctionName.parse("metric", self.metric)
        return self


class RunParams(Section):
    """Section ``run``: how often a training is saved, and where work is done.

    It changes no out: a change runs no stage again.
    """

    checkpoint_every_steps: Positive | None = 100
    """Optimizer steps between checkpoints.

    A training that was killed resumes from the last one. ``null``: one after each epoch with better weights.
    """
    engine: Literal["local", "ray"] = "local"
    """Where ``tokenize`` and ``validate`` work on shards.

    ``local``: in the stage's process. ``ray``: on the cluster that ``RAY_ADDRESS`` names, or on one that is
    started here. The outs have the same bytes.
    """
    workers: Positive | None = None
    """ray: shards that are worked on at the same time. ``null``: one for each CPU of the cluster."""
