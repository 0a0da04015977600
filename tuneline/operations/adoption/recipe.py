"""The proposal for model and training: a checkpoint or a new model, parameters with reasons.

Sources: Devlin et al. 2019 (BERT; batches of 16 and 32, learning rates of 2e-5 to 5e-5, 2 to 4 epochs), Turc
et al. 2019 (compact models; rates up to 3e-4), Liu et al. 2019 (RoBERTa; 1e-5 to 3e-5), Mosbach et al. 2021
(small data: more steps, and a warmup over the first tenth); of long texts Sun et al. 2019, "How to Fine-Tune
BERT for Text Classification?" (beginning and end), and Pappagari et al. 2019, "Hierarchical Transformers for
Long Document Classification" (windows).
"""

import itertools
import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from tuneline.checks.text_lengths import TextLengths
from tuneline.core.params import Params
from tuneline.core.params.data import WindowsParams
from tuneline.core.params.loading import default_values
from tuneline.core.params.params_file import get_value
from tuneline.core.stage.launch import AUTO, CPU
from tuneline.model.tasks import TASKS
from tuneline.operations.adoption.checkpoints import Checkpoint, Lengths, suggested_for
from tuneline.operations.adoption.planning import Plan, is_current

RATES = ((512, 2e-4), (768, 3e-5), (1024, 1e-5), (math.inf, 6e-6))
"""Learning rates up to each width of the hidden layers: wider models need lower ones.

For layers of 384, 2e-4 was better than 1e-4 from the linear model on (docs/benchmarks.md). Wider ones were
not measured here.
"""
RATE_OF_PAIRS = 1e-4
"""Highest learning rate for pairs, whose head is random at first where both texts are one input."""
SMALL_DATA = 5_000
"""Rows below which batches are smaller, so that an epoch has more steps."""
LARGE_DATA = 200_000
"""Rows from which one epoch of fine-tuning suffices, with evaluations within it."""
EPOCHS = (3, 8)
"""Fewest and most epochs of fine-tuning."""
LEAST_STEPS = 250
"""Optimizer steps below which there are more epochs.

500 rows of 12 classes were as good after 128 steps as after 256, 1,000 of 57 classes were measured with 252.
"""
FROZEN = "frozen"
BATCH_TOKENS = 4096 * 768 * 12
"""Tokens of a micro-batch times width times layers: 32 rows of 128 tokens for BERT-base."""
FEW_TO_CHOOSE_BY = 500
"""Rows of validation below which the weights of the last step are kept.

The rate has come down to 0 at the last step. With 37 and 125 rows, the last weights were as good as the
weights of the epoch that validation chose, or up to 3 points better (docs/benchmarks.md).
"""
SMOOTHING = 0.1
"""Label smoothing for few rows, whose weights come from many epochs and are too sure of themselves.

It cost no accuracy, and took the loss on test from 1.27 to 0.67 on 300 rows of movies (docs/benchmarks.md).
"""
CONTRASTIVE = 0.5
"""Share of the loss of pairs for one text and one class per row, where the rows of a class are few."""
FEW_OF_A_CLASS = 64
"""Rows per class below which pairs are learned from, too.

With 4 to 20 rows of a class it won 2 to 8 points, with 40 to 100 none (docs/benchmarks.md).
"""
FEW_CUT = 0.05
"""Share of cut rows below which these are truncated."""
MOST_PROPOSED = 8
"""Windows per document above which beginning and end are read instead."""
STRIDE_DIVISOR = 8
"""Neighbouring windows share at most an eighth of a window: 16 of 128 tokens."""
OF_DATA = (
    "tokenize.long_text",
    "tokenize.windows.stride", "tokenize.windows.max_windows", "tokenize.windows.answer",
    "train.label_smoothing", "train.contrastive", "train.class_weights",
    "evaluate.split", "evaluate.metrics",
)  # fmt: skip
"""Parameters of former data that could contradict others: they get their defaults."""
OF_RECIPE = (
    "model.head",
    "train.max_steps", "train.weight_decay", "train.schedule", "train.warmup_ratio",
    "train.lora", "train.keep",
)  # fmt: skip
"""Parameters of a former recipe that could contradict a new one."""

Recipe = tuple[dict[str, Any], list[str]]
"""Parameters by dotted key, and a line with the reason of each decision, for the user."""


def propose(plan: Plan, params: Params, checkpoint: Checkpoint | None) -> Recipe:
    """Return the proposed parameters with their reasons.

    Without a checkpoint, the model in the parameters is kept, with its recipe.
    """
    if checkpoint is not None:
        texts = [plan.columns[name].cells for name in plan.decision.text_columns]
        return fine_tuning(checkpoint, checkpoint.measure(texts), plan, params)
    if is_current(plan, params):
        reason = "as in params.yaml, which is for this data already; --checkpoint NAME makes a new proposal"
        return {}, [reason]
    former = params.model.checkpoint
    if former is not None:
        reason = (
            f"No --checkpoint: the model of params.yaml, {former}, with the recipe of its former data, but"
            f" for what is listed below. For a new proposal:\n  tuneline init FILE --checkpoint {former}"
        )
    else:
        cells = [plan.columns[name].cells for name in plan.decision.text_columns]
        suggested = suggested_for(itertools.chain.from_iterable(cells))
        reason = (
            "No --checkpoint: a small new model, as in params.yaml. It learns what words mean from these"
            f" {_train_rows(plan, params):,} rows alone, and seldom does better than counting words. To"
            f" fine-tune a pretrained model instead:\n  tuneline init FILE --checkpoint {suggested}"
        )
    return {**_reset(OF_DATA, plan, params), "train.mixed_precision": _precision(params)}, [reason]


def fine_tuning(checkpoint: Checkpoint, lengths: Lengths, plan: Plan, params: Params) -> Recipe:
    """Return the recipe for fine-tuning a checkpoint.

    It begins with the linear model on the frozen checkpoint, which is published where validation shows it
    better.
    """
    # batches
    rows = _train_rows(plan, params)
    batch = 16 if rows < SMALL_DATA else 32
    max_length = lengths.max_length
    longest = min(int(lengths.rows.tokens.max()), max_length)
    micro_batch = batch
    while micro_batch > 1 and micro_batch * longest > BATCH_TOKENS // (checkpoint.width * checkpoint.layers):
        micro_batch //= 2
    size = f"batch of {batch} rows"
    if micro_batch < batch:
        size += f", in micro-batches of {micro_batch} because of the memory"

    # steps and learning rate
    steps_per_epoch = math.ceil(rows / batch)
    fewest, most = EPOCHS
    epochs = min(max(fewest, math.ceil(LEAST_STEPS / steps_per_epoch)), most)
    evaluate_every_steps = None
    rule = f"at least {LEAST_STEPS} steps, {fewest} to {most} epochs"
    if rows >= LARGE_DATA:
        epochs = 1
        evaluate_every_steps = math.ceil(steps_per_epoch / 4)
        rule = f"evaluated 4 times: one suffices from {LARGE_DATA:,} rows"
    rate = next(rate for width, rate in RATES if checkpoint.width <= width)
    if len(plan.decision.text_columns) == 2:
        rate = min(rate, RATE_OF_PAIRS)
    keep, smoothing, kept = _kept_weights(plan, params)
    contrastive = 0.0
    has_classes_of_one_text = len(plan.decision.text_columns) == 1 and TASKS[plan.decision.task].one_class
    if has_classes_of_one_text and rows < FEW_OF_A_CLASS * len(plan.rows.classes):
        contrastive = CONTRASTIVE

    long_texts, long_reasons = plan_long_texts(lengths.rows, max_length, plan, params)
    values = {
        **_reset(OF_DATA + OF_RECIPE, plan, params),
        "model.checkpoint": checkpoint.pretrained.name,
        "model.revision": checkpoint.pretrained.commit,
        "model.config": {},
        "model.head": "auto",
        "tokenize.max_length": max_length,
        "train.epochs": epochs,
        "train.evaluate_every_steps": evaluate_every_steps,
        "train.global_batch_size": batch,
        "train.micro_batch_size": micro_batch,
        "train.learning_rate": rate,
        "train.keep": keep,
        "train.label_smoothing": smoothing,
        "train.contrastive": contrastive,
        "train.mixed_precision": _precision(params),
        **long_texts,
    }
    reasons = [f"checkpoint: {checkpoint.description}", *lengths.warnings, lengths.description, *long_reasons]
    reasons += [
        (
            "model.head auto: fine-tuning begins with a linear model on the frozen checkpoint; validation"
            " decides which of both is published, or an average"
        ),
        f"{size}: 16 below {SMALL_DATA:,} rows, else 32",
        f"{epochs} epochs, {epochs * steps_per_epoch:,} steps: {rule}",
        f"learning rate {rate:.0e} for layers of {checkpoint.width}, warmup over a tenth of the steps",
        kept,
    ]
    if contrastive:
        reasons.append(
            f"contrastive loss, share {contrastive}: rows of one class become more alike; below"
            f" {FEW_OF_A_CLASS} rows per class"
        )
    return values, reasons


def _kept_weights(plan: Plan, params: Params) -> tuple[str, float, str]:
    """Return ``train.keep``, ``train.label_smoothing`` and the reason.

    Few rows of validation cannot tell the epochs apart.
    """
    rows = plan.rows.splits["validation"]
    kind = TASKS[plan.decision.task]
    smoothing = params.train.label_smoothing if kind.has_classes else 0.0
    if rows >= FEW_TO_CHOOSE_BY:
        return "best", smoothing, f"best weights by validation ({rows:,} rows)"
    reason = f"last weights: {rows:,} rows of validation are too few to choose among the epochs"
    if kind.one_class:  # of labels, half of the share would be more than the frequency of most
        smoothing = smoothing or SMOOTHING
        reason += "; label smoothing, so that they are not too sure of themselves"
    return "last", smoothing, reason


def plan_long_texts(
    lengths: TextLengths, max_length: int, plan: Plan, params: Params
) -> tuple[dict[str, Any], list[str]]:
    """Return what becomes of texts longer than ``max_length`` tokens, with the reasons.

    The data check ``truncation_rate`` is raised where it would fail. A split is not the sample that was
    measured, so its share may be larger by chance: by up to three standard errors of the difference of two
    samples.
    """
    values: dict[str, Any] = {"tokenize.long_text": "truncate"}
    reasons = []
    cut = lengths.cut(max_length)
    # A row of exactly max_length tokens looks like one that was cut.
    full = float(np.mean(lengths.tokens >= max_length))
    if cut.incomplete >= FEW_CUT:
        stride = min(WindowsParams().stride, max_length // STRIDE_DIVISOR)
        max_windows = lengths.enough_windows(max_length, stride)
        if lengths.allows_windows(max_length, stride) and max_windows <= MOST_PROPOSED:
            full = lengths.windowed(max_length, stride, max_windows).incomplete
            values = {
                "tokenize.long_text": "windows",
                "tokenize.windows.stride": stride,
                "tokenize.windows.max_windows": max_windows,
            }
        reasons.append(
            f"! {cut.incomplete:.0%} of the rows are longer than {max_length} tokens, and {cut.lost:.0%} of"
            f" all tokens do not fit, so tokenize.long_text is {values['tokenize.long_text']}:"
            " docs/long-documents.md"
        )

    smallest = min(rows for rows in plan.rows.splits.values() if rows)
    variance = full * (1 - full) * (1 / len(lengths.tokens) + 1 / smallest)
    highest = min(1.0, full + 3 * math.sqrt(variance))
    limit = params.validate_.truncation_rate
    if highest > limit:
        values["validate.truncation_rate"] = math.ceil(highest * 20) / 20
        reasons.append(
            f"! The data check truncation_rate allows that {limit:.0%} of the rows lose tokens; it is raised."
            " A checkpoint that takes longer texts (such as ModernBERT, 8,192 tokens) reads all of them."
        )
    return values, reasons


def _reset(keys: Sequence[str], plan: Plan, params: Params) -> dict[str, Any]:
    """Return the defaults of these parameters.

    In a classification, label smoothing and class weights stay where they say nothing of single classes.
    """
    defaults = default_values()
    values = {key: get_value(defaults, key) for key in keys}
    if TASKS[plan.decision.task].has_classes:
        values["train.label_smoothing"] = params.train.label_smoothing
        # A table of weights names the classes of the former data.
        is_table = isinstance(params.train.class_weights, dict)
        values["train.class_weights"] = None if is_table else params.train.class_weights
    return values


def _precision(params: Params) -> str | None:
    """Return ``train.mixed_precision``: the user's, else ``auto`` where the launch permits it."""
    current = params.train.mixed_precision
    if current is None and params.train.launch in (AUTO, CPU):
        return "auto"
    return current


def _train_rows(plan: Plan, params: Params) -> int:
    """Return the number of rows that are trained on in one epoch."""
    rows = plan.rows.splits["train"]
    if params.data.max_rows is not None:
        rows = min(rows, params.data.max_rows)
    return max(1, rows)
