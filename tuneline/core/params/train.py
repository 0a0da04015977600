"""Sections ``model``, ``train`` and ``run``: which model is trained, how, and how a training is saved."""

from pathlib import PurePosixPath
from typing import Annotated, Any, Literal, Self

from pydantic import Field, field_validator, model_validator

from tuneline.core.params.section import Fraction, FunctionName, Positive, PositiveFloat, Section
from tuneline.core.paths import BASE_SOURCE

STRUCTURE = frozenset(
    {
        "model_type", "vocab_size", "type_vocab_size", "max_position_embeddings", "embedding_size",
        "hidden_size", "dim", "d_model", "intermediate_size", "hidden_dim", "num_hidden_layers", "n_layers",
        "num_attention_heads", "n_heads", "num_key_value_heads", "head_dim",
    }
)  # fmt: skip
"""Keys of a configuration that a checkpoint determines, because its weights have these sizes."""

_END_TOKENS = (
    "its classifier reads the end token of its decoder, and refuses batches whose rows have different numbers"
    " of them"
)
UNSUPPORTED = {
    "mt5": _END_TOKENS,
    "t5": _END_TOKENS,
    "umt5": _END_TOKENS,
    "xlnet": (
        "its classifier reads the last position, which is padding in all rows but the longest of a batch"
    ),
}
"""Model types that transformers has a classifier for, and that cannot be trained here; with the reason."""
ENCODERS = "an encoder, such as BERT, RoBERTa, DeBERTa, ELECTRA or ModernBERT"


def is_folder(name: str) -> bool:
    """Return True if a pretrained model is named by a folder in the project, not by its name on the hub."""
    return PurePosixPath(name).parts[: len(BASE_SOURCE.parts)] == BASE_SOURCE.parts


def invalid_name(name: str, revision: str | None = None) -> str | None:
    """Return what is wrong with the name of a pretrained model; ``None`` if nothing is.

    It is ``owner/name`` or ``name`` on the hub, or a folder ``models/source/NAME``.
    """
    path = PurePosixPath(name)
    if is_folder(name):
        if len(path.parts) != len(BASE_SOURCE.parts) + 1 or ".." in path.parts:
            return f"{name!r} is not a folder directly in {BASE_SOURCE}/, such as {BASE_SOURCE}/my-model"
        if revision is not None:
            return f"{name!r} is a folder, which has no revisions; set the revision to null"
    elif not name.strip() or name[0] in "./~" or name.count("/") > 1 or "\\" in name:
        folder = f"{BASE_SOURCE}/{path.name or 'NAME'}"
        return (
            f"{name!r} is neither a name on the hub nor a folder in {BASE_SOURCE}/; copy the folder to"
            f" {folder} and write that, because DVC detects changes only there"
        )

    if path.as_posix() != name:
        return f"{name!r} should be written {path.as_posix()!r}"
    return None


class ModelParams(Section):
    """Section ``model``: the checkpoint to fine-tune, or the configuration of a new model."""

    checkpoint: str | None = None
    """Name on the Hugging Face Hub, or a folder ``models/source/NAME``.

    ``null``: train from scratch, with ``config``.
    """
    revision: str | None = None
    """Commit, tag or branch of the checkpoint on the hub.

    ``null``: main. ``models/base/source.json`` records the commit.
    """
    config: dict[str, Any] = {}
    """Keys of the transformers configuration, of which ``model_type`` selects the class.

    Vocabulary size, label names and padding id
    come from the data. With a checkpoint: overrides of its configuration, such as dropout. ``null``: none."""

    head: Literal["frozen", "auto"] | None = None
    """``frozen``: the checkpoint stays as it is, and a linear model is fitted to its pooled vectors in
    seconds (docs/fine-tune.md). Of ``train``, only ``launch``, ``seed``, ``metric`` and ``thresholds``
    then have an effect, and ``keep`` on the name of the metric in ``metrics/train.json``. ``null``: train the
    whole model. ``auto``: both, and the validation split decides which is published
    (tuneline/training/choice.py).
    """

    @field_validator("config", mode="before")
    @classmethod
    def _no_overrides(cls, value: Any) -> Any:
        # Hydra cannot empty a mapping: `-S model.config={}` changes nothing.
        return {} if value is None else value

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        if self.checkpoint is None:
            if self.revision is not None:
                raise ValueError("revision: there is no model.checkpoint; set it to null")
            if self.head is not None:
                raise ValueError(
                    "head: there is no model.checkpoint whose vectors a linear model could use; set"
                    " model.head to null"
                )
            if "model_type" not in self.config:
                raise ValueError("config: without a checkpoint it needs 'model_type', for example 'bert'")
            reason = UNSUPPORTED.get(self.config["model_type"])
            if reason is not None:
                raise ValueError(
                    f"config.model_type: {self.config['model_type']!r} cannot be trained: {reason}; choose"
                    f" {ENCODERS}"
                )
            return self

        problem = invalid_name(self.checkpoint, self.revision)
        if problem is not None:
            raise ValueError(f"checkpoint: {problem}")
        structure = sorted(STRUCTURE & self.config.keys())
        if structure:
            raise ValueError(
                f"config: {', '.join(structure)}: the weights of model.checkpoint determine this; a new model"
                " would be described here. Set model.config to null (-S model.config=null), or to other keys"
                " that you override; or model.checkpoint to null, to train from scratch"
            )
        return self


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
    contrastive: Annotated[float, Field(ge=0, lt=1)] = 0.0
    """Share of the loss of pairs: the vectors of rows of one class become more alike than those of others.

    The rest is the loss of each example. 0: none. For one class per row of one text, and a checkpoint."""
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
    bf16 on CPUs with AMX.
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
    models, and promotion. Instead of a loss, an error or a function, accuracy decides there, macro F1
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
