"""The proposal for model and training: a checkpoint or a new model, parameters with reasons.

Sources: Devlin et al. 2019 (BERT; batches of 16 and 32, learning rates of 2e-5 to 5e-5, 2 to 4 epochs), Turc
et al. 2019 (compact models; rates up to 3e-4), Liu et al. 2019 (RoBERTa; 1e-5 to 3e-5), Mosbach et al. 2021
(small data: more steps, and a warmup over the first tenth).
"""

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import typer
from numpy.typing import NDArray
from rich.text import Text

from tuneline.checkpoints.pretrained import CONFIG, Pretrained, check_model_type, find_pretrained
from tuneline.cli.console import Console
from tuneline.cli.init.long_text_proposal import LongTexts, plan_long_texts, truncated_texts
from tuneline.cli.init.parameters import is_current
from tuneline.cli.init.planning import Plan
from tuneline.cli.init.rules_of_thumb import least_steps
from tuneline.columns.profiles import Cells, count_words
from tuneline.core.launch import AUTO, CPU
from tuneline.model.architectures import token_limit
from tuneline.model.text_lengths import TextLengths, measure_texts
from tuneline.model.tokenizer import checkpoint_limit, load_tokenizer
from tuneline.params import Params
from tuneline.params.loading import default_values
from tuneline.params.model import invalid_name
from tuneline.params.params_file import get_value
from tuneline.runtime.errors import ParamsError, StageError
from tuneline.sweeps.space import write_first
from tuneline.tasks import TASKS, unnamed_task

OPTION = "--checkpoint"


@dataclass(frozen=True)
class Checkpoint:
    """A checkpoint whose files were read, except for the weights.

    Attributes:
        config: Its ``config.json``.
        license: Licence in its model card, if it states one.
        folder: Folder with its tokenizer and configuration.
    """

    pretrained: Pretrained
    config: Mapping[str, Any]
    parameters: int
    license: str | None
    folder: Path

    @property
    def width(self) -> int:
        """Size of the hidden layers."""
        return self._size("hidden_size", "dim", "d_model", default=768)

    @property
    def layers(self) -> int:
        """Number of layers."""
        return self._size("num_hidden_layers", "n_layers", default=12)

    def _size(self, *keys: str, default: int) -> int:
        """Return the size under the first key that there is: architectures name their sizes differently."""
        for key in keys:
            value = self.config.get(key)
            if isinstance(value, int):
                return value
        return default

    @property
    def description(self) -> str:
        """Name, commit, architecture, size and licence in one line."""
        millions = f"{self.parameters / 1e6:,.1f} million parameters"
        licence = "no licence in its model card"
        if self.license:
            licence = f"licence {self.license}"
        return (
            f"{self.pretrained.label} ({self.config.get('model_type')}, {self.layers} layers of {self.width},"
            f" {millions}, {licence})"
        )


def open_checkpoint(name: str, revision: str | None) -> Checkpoint:
    """Find a checkpoint on the hub or in ``models/source/``, and read its configuration and tokenizer.

    The weights are not downloaded.

    Raises:
        StageError: It does not exist, cannot be reached, or cannot be fine-tuned here.
    """
    problem = invalid_name(name, revision)
    if problem:
        raise ParamsError(f"{OPTION}: {problem}.")
    pretrained = find_pretrained(name, revision, OPTION)
    check_model_type(pretrained)
    if not pretrained.tokenizer_files():
        hint = (
            "Choose one that has a tokenizer; or save tokenizer and weights into one folder"
            " models/source/NAME and name that."
        )
        raise StageError(f"{OPTION}: {pretrained.label} has no tokenizer.", hint)
    pretrained.weight_files()
    folder = pretrained.fetch([CONFIG, *pretrained.tokenizer_files()])
    return Checkpoint(pretrained, pretrained.config(), pretrained.parameters(), pretrained.license(), folder)


@dataclass(frozen=True)
class Lengths:
    """Lengths of texts in tokens, special tokens included.

    Attributes:
        rows: Lengths of the rows of a sample.
        limit: Tokens that the model takes; ``None`` if it has no limit.
        unknown: Share of the tokens that the vocabulary does not have.
    """

    rows: TextLengths
    limit: int | None
    unknown: float = 0.0

    MOST_TRUNCATED = 0.01
    """Share of rows that may be truncated."""
    USUAL = 512
    """Tokens that a model reads although no row of the data has so many.

    A batch is padded to its longest row, so they cost nothing.
    """

    @property
    def tokens(self) -> NDArray[np.int64]:
        """Tokens of each row, ascending, of shape ``(rows,)``."""
        return np.sort(self.rows.tokens)

    @property
    def max_length(self) -> int:
        """The model's limit.

        For a model that takes more than 512 tokens, it is the smallest multiple of 8 that truncates at most
        1 % of the rows.

        The data say little about the texts that the model will read one day, and a limit of the training data
        would cut them.
        """
        needed = int(self.tokens[-1 - int(self.MOST_TRUNCATED * len(self.tokens))])
        rounded = max(self.USUAL, -(-needed // 8) * 8)
        if self.limit is None:
            return rounded
        return min(rounded, self.limit)

    def truncated(self, length: int) -> float:
        """Return the share of rows that are longer."""
        return float(np.mean(self.tokens > length))

    @property
    def description(self) -> str:
        """Quantiles in one line."""
        median = int(np.quantile(self.tokens, 0.5, method="inverted_cdf"))
        ninety = int(np.quantile(self.tokens, 0.9, method="inverted_cdf"))
        return f"tokens per row: median {median}, 90% at most {ninety}, longest {int(self.tokens[-1])}"


def measure_lengths(
    checkpoint: Checkpoint, sample: Sequence[Cells], columns: Sequence[str], text_columns: Sequence[str]
) -> Lengths:
    """Tokenize the texts of a sample of rows by the tokenizer of a checkpoint, without truncation.

    At least one row has a text.
    """
    tokenizer = load_tokenizer(checkpoint.folder, f"{OPTION}: {checkpoint.pretrained.label}")
    backend = tokenizer.backend_tokenizer
    backend.encode_special_tokens = True
    backend.no_truncation()
    backend.no_padding()

    # texts of the sample, without the rows that have no text
    rows = []
    for row in texts_of(sample, columns, text_columns):
        if any(text.strip() for text in row):
            rows.append(row)

    # tokens of each text column
    name = checkpoint.pretrained.label
    unknown = 0
    contents = []
    for texts in zip(*rows, strict=True):
        column = measure_texts(backend, texts, name, tokenizer.unk_token_id)
        contents.append(column.tokens)
        unknown += column.unknown
    special_tokens = backend.num_special_tokens_to_add(is_pair=len(text_columns) > 1)
    lengths = TextLengths.of_texts(contents, special_tokens)

    # the smaller limit of tokenizer and model; some state none
    limits = [checkpoint_limit(checkpoint.folder), token_limit(checkpoint.config)]
    limit = min((limit for limit in limits if limit is not None), default=None)
    return Lengths(lengths, limit, unknown / max(int(lengths.tokens.sum()), 1))


def texts_of(
    sample: Sequence[Cells], columns: Sequence[str], text_columns: Sequence[str]
) -> Iterator[tuple[str, ...]]:
    """Yield the texts of each row of a sample; a missing text is empty."""
    positions = list(map(list(columns).index, text_columns))
    for row in sample:
        yield tuple(row[position] or "" for position in positions)


RATES = ((256, 1e-4), (512, 5e-5), (768, 3e-5), (1024, 1e-5), (math.inf, 6e-6))
"""Learning rates up to each width of the hidden layers: wider models need lower ones."""
SMALL_DATA = 5_000
"""Rows below which batches are smaller, so that an epoch has more steps."""
EPOCHS = (3, 16)
"""Fewest and most epochs of fine-tuning."""
FROZEN = "frozen"
LARGE_DATA = 200_000
"""Rows from which one epoch of fine-tuning suffices, with evaluations within it."""
BATCH_TOKENS = 4096 * 768 * 12
"""Tokens of a micro-batch times width times layers: 32 rows of 128 tokens for BERT-base."""
SCRATCH_CONFIG = {
    "model_type": "bert",
    "hidden_size": 128,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "intermediate_size": 512,
    "hidden_dropout_prob": 0.0,
    "attention_probs_dropout_prob": 0.0,
}
SCRATCH_BATCH = 32
SCRATCH_RATE = 7e-4
SCRATCH_STEPS = 1200
SCRATCH_EPOCHS = (5, 30)
SCRATCH_LENGTHS = (128, 512)
TOKENS_PER_WORD = 1.4
"""WordPiece tokens per English word, roughly."""
PIECE = re.compile(r"[^\W_]+|[^\w\s]|_")
"""A run of letters and digits, or a single other character, as WordPiece divides a text first."""
CHARACTERS_PER_PIECE = 6
"""Characters of a token within a word that is no word of the vocabulary, at least."""


@dataclass(frozen=True)
class Recipe:
    """Parameters by dotted key, and a line with the reason of each decision, for the user.

    Attributes:
        long_texts: What the model reads of long texts.
    """

    params: Mapping[str, Any]
    reasons: tuple[str, ...]
    long_texts: LongTexts = field(repr=False)


def fine_tuning(checkpoint: Checkpoint, lengths: Lengths, plan: Plan, params: Params) -> Recipe:
    """Return the recipe for fine-tuning a checkpoint.

    The linear model on the frozen checkpoint is published where validation shows it better.
    """
    # batches
    rows = train_rows(plan, params)
    batch = 16 if rows < SMALL_DATA else 32
    max_length = lengths.max_length
    longest = min(int(lengths.tokens[-1]), max_length)
    micro_batch = micro_batch_size(batch, longest, checkpoint)
    long_texts = plan_long_texts(lengths.rows, max_length, default_stride())
    truncation, truncation_reasons = truncation_rate(long_texts, plan, params)

    # epochs and learning rate
    steps_per_epoch = math.ceil(rows / batch)
    classes = len(plan.counts["train"].classes)
    fewest_steps = least_steps(unnamed_task(plan.decision.task), classes)
    epochs = fine_tuning_epochs(rows, steps_per_epoch, fewest_steps)
    evaluate_every_steps = None
    if epochs == 1:
        evaluate_every_steps = math.ceil(steps_per_epoch / 4)
    rate = next(rate for width, rate in RATES if checkpoint.width <= width)

    values = {
        **reset(plan, params),
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
        "train.keep": kept_weights(plan),
        "train.label_smoothing": label_smoothing(plan, params),
        "train.mixed_precision": precision(params),
        **long_texts.params,
        **truncation,
    }
    reasons = [f"checkpoint: {checkpoint.description}", max_length_reason(lengths, long_texts)]
    reasons += long_texts.reasons
    reasons += truncation_reasons
    reasons += language_reasons(lengths, params)
    reasons += [
        (
            "model.head auto: a linear model on the frozen checkpoint is fitted, too;"
            " validation decides which is published"
        ),
        batch_reason(batch, micro_batch),
        epochs_reason(epochs, steps_per_epoch, fewest_steps),
        f"learning rate {rate:.0e} for layers of {checkpoint.width}, warmup over a tenth of the steps",
        kept_reason(plan, label_smoothing(plan, params)),
    ]
    return Recipe(values, tuple(reasons), long_texts)


def default_stride() -> int:
    """Return the default of ``tokenize.windows.stride``."""
    return int(get_value(default_values(), "tokenize.windows.stride"))


def max_length_reason(lengths: Lengths, long_texts: LongTexts) -> str:
    """Return why a model input has so many tokens, and how long the texts are."""
    max_length = lengths.max_length
    share = f"{lengths.truncated(max_length):.1%} of rows"
    if long_texts.kind == "truncate":
        reason = f"max_length {max_length}: truncates {share}{_at_limit(lengths)}"
    else:
        reason = f"max_length {max_length}: {share} are longer{_at_limit(lengths)}"
    if long_texts.kind == "truncate" and max_length > Lengths.USUAL:
        reason += ", so texts are read whole and need no windows"
    return f"{reason}; {lengths.description}"


def fine_tuning_epochs(rows: int, steps_per_epoch: int, fewest_steps: int) -> int:
    """Return the epochs that make ``fewest_steps``, within ``EPOCHS``; 1 from ``LARGE_DATA`` rows."""
    if rows >= LARGE_DATA:
        return 1
    fewest, most = EPOCHS
    return min(max(fewest, math.ceil(fewest_steps / steps_per_epoch)), most)


def language_reasons(lengths: Lengths, params: Params) -> list[str]:
    """Return a warning if the checkpoint does not know the language of the texts."""
    if lengths.unknown <= params.validate_.unknown_rate:
        return []
    return [
        f"! {lengths.unknown:.0%} of the tokens are unknown to this checkpoint, so the data checks will"
        " fail: it was made for other languages. Take a multilingual checkpoint, such as --checkpoint"
        f" {MULTILINGUAL}"
    ]


def batch_reason(batch: int, micro_batch: int) -> str:
    """Return why a batch has so many rows, and that its micro-batches have fewer."""
    size = f"batch of {batch} rows"
    if micro_batch < batch:
        size += f", in micro-batches of {micro_batch} because of the memory"
    return f"{size}: 16 below {SMALL_DATA:,} rows, else 32"


def epochs_reason(epochs: int, steps_per_epoch: int, fewest_steps: int) -> str:
    """Return why there are so many epochs."""
    steps = epochs * steps_per_epoch
    if epochs == 1:
        return f"1 epoch, {steps:,} steps, evaluated 4 times: one suffices from {LARGE_DATA:,} rows"
    if steps < fewest_steps:
        rule = f"the most, although they make fewer than the usual {fewest_steps:,} steps"
    elif epochs == EPOCHS[0]:
        rule = "the fewest"
    else:
        rule = f"they make at least {fewest_steps:,} steps"
    return f"{epochs} epochs, {steps:,} steps: {rule}"


def from_scratch(plan: Plan, params: Params) -> Recipe:
    """Return the recipe for a small new model; a configuration that the user wrote is kept."""
    steps_per_epoch = math.ceil(train_rows(plan, params) / SCRATCH_BATCH)
    fewest, most = SCRATCH_EPOCHS
    epochs = min(max(fewest, math.ceil(SCRATCH_STEPS / steps_per_epoch)), most)

    # There is no tokenizer yet: tokens are estimated.
    sample = estimated_lengths(plan)
    tokens = int(np.quantile(sample.tokens, 0.95, method="inverted_cdf"))
    shortest, longest = SCRATCH_LENGTHS
    max_length = min(max(shortest, math.ceil(tokens / 8) * 8), longest)
    config = scratch_config(params, max_length)
    long_texts = truncated_texts(sample, max_length)
    if max_length == longest:  # a shorter one is that of nearly all texts
        long_texts = plan_long_texts(sample, max_length, default_stride())
    truncation, truncation_reasons = truncation_rate(long_texts, plan, params)
    return Recipe(
        {
            **reset(plan, params),
            "model.checkpoint": None,
            "model.revision": None,
            "model.config": config,
            "tokenize.max_length": max_length,
            "train.epochs": epochs,
            "train.evaluate_every_steps": None,
            "train.global_batch_size": SCRATCH_BATCH,
            "train.micro_batch_size": SCRATCH_BATCH,
            "train.learning_rate": SCRATCH_RATE,
            "train.mixed_precision": precision(params),
            **long_texts.params,
            **truncation,
        },
        (
            f"max_length {max_length}: one row in twenty has more than about {tokens} tokens",
            *long_texts.reasons,
            *truncation_reasons,
            (
                f"{epochs} epochs, {epochs * steps_per_epoch:,} steps of {SCRATCH_BATCH} rows; learning rate"
                f" {SCRATCH_RATE:.0e}"
            ),
        ),
        long_texts,
    )


def estimated_lengths(plan: Plan) -> TextLengths:
    """Estimate the tokens of the rows of the sample."""
    contents = []
    for texts in texts_of(plan.sample, plan.columns, plan.decision.text_columns):
        contents.append([estimated_tokens(text) for text in texts])
    tokens = np.array(contents, dtype=np.int64)
    special_tokens = 1 + tokens.shape[1]
    return TextLengths.of_texts(list(tokens.T), special_tokens)


def estimated_tokens(text: str) -> int:
    """Estimate the tokens of a text: by its words, or by the pieces that the tokenizer makes, if more.

    A punctuation mark is a token of its own, and a long word several: a list of numbers, an address or a line
    of code has many more tokens than words.
    """
    pieces = 0
    for piece in PIECE.findall(text):
        pieces += math.ceil(len(piece) / CHARACTERS_PER_PIECE)
    return max(math.ceil(TOKENS_PER_WORD * count_words(text)), pieces)


def scratch_config(params: Params, max_length: int) -> dict[str, Any]:
    """Return the configuration of a new model that takes ``max_length`` tokens: the user's, if any."""
    if params.model.checkpoint is not None:
        return {**SCRATCH_CONFIG, "max_position_embeddings": max_length}
    config = dict(params.model.config)
    limit = token_limit(config)
    if limit is not None and limit < max_length:
        config["max_position_embeddings"] += max_length - limit
    return config


RESET = (
    "model.head", "tokenize.tokenizer", "tokenize.long_text",
    "tokenize.windows.stride", "tokenize.windows.max_windows", "tokenize.windows.answer",
    "train.max_steps", "train.weight_decay", "train.schedule", "train.warmup_ratio",
    "train.label_smoothing", "train.class_weights",
    "train.freeze", "train.lora", "train.keep", "evaluate.split", "evaluate.metrics",
)  # fmt: skip
"""Parameters of a former task or recipe that could contradict the new one."""


def reset(plan: Plan, params: Params) -> dict[str, Any]:
    """Return the defaults of ``RESET``.

    In a classification, label smoothing and class weights stay where they say nothing of single classes.
    """
    defaults = default_values()
    values = {key: get_value(defaults, key) for key in RESET}
    if TASKS[plan.decision.task].has_classes:
        values["train.label_smoothing"] = params.train.label_smoothing
        values["train.class_weights"] = None
        # A table of weights names the classes of the former data.
        if not isinstance(params.train.class_weights, dict):
            values["train.class_weights"] = params.train.class_weights
    return values


def write_sweep(plan: Plan, params: Params) -> Path | None:
    """Write a first sweep around the recipe in ``params``.

    Returns:
        The file; ``None`` if there is one already, or nothing to vary.
    """
    if params.model.head == FROZEN:
        return None
    train = params.train
    steps = train.max_steps
    if not steps:
        steps_per_epoch = math.ceil(train_rows(plan, params) / train.global_batch_size)
        steps = (train.epochs or 1) * steps_per_epoch
    return write_first(train.learning_rate, steps)


def precision(params: Params) -> str | None:
    """Return ``train.mixed_precision``: the user's, else ``auto`` where the launch permits it."""
    current = params.train.mixed_precision
    if current is None and params.train.launch in (AUTO, CPU):
        return "auto"
    return current


FEW_TO_CHOOSE_BY = 500
"""Rows of validation below which the weights of the last step are kept."""


def kept_weights(plan: Plan) -> str:
    """Return the value of ``train.keep``: few rows of validation cannot tell the epochs apart.

    The rate has come down to 0 at the last step. With 37 and 125 rows, the last weights were as good as the
    weights of the epoch that validation chose, or up to 3 points better (docs/benchmarks.md).
    """
    if plan.counts["validation"].rows >= FEW_TO_CHOOSE_BY:
        return "best"
    return "last"


def label_smoothing(plan: Plan, params: Params) -> float:
    """Return ``train.label_smoothing``: the user's, else ``SMOOTHING`` for a classifier of last weights.

    These weights come from many epochs on few rows, and are too sure of themselves. Smoothing cost no
    accuracy, and took the loss on test from 1.27 to 0.67 on 300 rows of movies (docs/benchmarks.md).
    """
    kind = TASKS[plan.decision.task]
    if not kind.has_classes:
        return 0.0
    current = params.train.label_smoothing
    if not kind.one_class:
        # Half of the share would be more than the frequency of most labels.
        return current
    if kept_weights(plan) == "last":
        return current or SMOOTHING
    # An earlier `tuneline init` wrote these values for few rows.
    if params.train.keep == "last" and current == SMOOTHING:
        return 0.0
    return current


SMOOTHING = 0.1
"""Label smoothing for few rows."""


def kept_reason(plan: Plan, smoothing: float) -> str:
    """Return why these weights are kept, and why labels are smoothed, if they are."""
    rows = plan.counts["validation"].rows
    if kept_weights(plan) == "best":
        return f"best weights by validation ({rows:,} rows)"
    reason = (
        f"last weights, after which the rate is 0: {rows:,} rows of validation are too few to choose among"
        " the epochs"
    )
    if smoothing:
        return f"{reason}; label smoothing, so that they are not too sure of themselves"
    return reason


def train_rows(plan: Plan, params: Params) -> int:
    """Return the number of rows that are trained on in one epoch."""
    rows = plan.counts["train"].rows
    if params.data.max_rows is not None:
        rows = min(rows, params.data.max_rows)
    return max(1, rows)


def micro_batch_size(batch: int, longest: int, checkpoint: Checkpoint) -> int:
    """Return the largest power of 2 of rows whose activations fit, at most the batch.

    They take the memory of 32 x 128 tokens in BERT-base.
    """
    tokens = BATCH_TOKENS // (checkpoint.width * checkpoint.layers)
    size = batch
    while size > 1 and size * longest > tokens:
        size //= 2
    return size


def truncation_rate(long_texts: LongTexts, plan: Plan, params: Params) -> tuple[dict[str, Any], list[str]]:
    """Return a larger ``validate.truncation_rate`` and the reason.

    Both are empty if every split will pass the data check. A split is not the sample that was measured, so
    its share may be larger by chance: by up to three standard errors of the difference of two samples.
    """
    share = long_texts.full
    smallest = min(counts.rows for counts in plan.counts.values() if counts.rows)
    variance = share * (1 - share) * (1 / len(plan.sample) + 1 / smallest)
    highest = min(1.0, share + 3 * math.sqrt(variance))
    limit = params.validate_.truncation_rate
    if highest <= limit:
        return {}, []
    allowed = math.ceil(highest * 20) / 20
    reason = (
        f"! {share:.0%} of the rows lose tokens all the same, by chance up to {highest:.0%} of a split. The"
        f" data check truncation_rate allows {limit:.0%}; it becomes {allowed:.0%}. A checkpoint that takes"
        " longer texts (such as ModernBERT, 8,192 tokens) reads all of them."
    )
    return {"validate.truncation_rate": allowed}, [reason]


def _at_limit(lengths: Lengths) -> str:
    if lengths.limit is None:
        return ""
    if lengths.limit == lengths.max_length:
        return " (the model takes no more)"
    return f" ({lengths.truncated(lengths.limit):.1%} at {lengths.limit}, the model's limit)"


SUGGESTIONS = {
    "sentence-transformers/all-MiniLM-L6-v2": "English, small: 23 million parameters",
    "google-bert/bert-base-uncased": "English, medium: 110 million parameters",
    "distilbert/distilbert-base-multilingual-cased": "104 languages, medium: 135 million parameters",
    "FacebookAI/xlm-roberta-base": "100 languages, large: 278 million parameters",
}
"""Well-known checkpoints on the hub with safetensors, a fast tokenizer and a licence for any use."""
SMALL, _, MULTILINGUAL, _ = SUGGESTIONS
MOST_FOREIGN = 0.02
"""Share of letters beyond ASCII from which a multilingual checkpoint is suggested."""


def suggested(sample: Sequence[Cells], columns: Sequence[str], text_columns: Sequence[str]) -> str:
    """Return a small checkpoint that reads the language of the texts."""
    letters = 0
    foreign = 0
    for texts in texts_of(sample[:1000], columns, text_columns):
        for character in "".join(texts):
            if character.isalpha():
                letters += 1
                if not character.isascii():
                    foreign += 1
    return MULTILINGUAL if foreign > MOST_FOREIGN * letters else SMALL


def ask(current: str | None, suggestion: str) -> str | None:
    """Ask which checkpoint to fine-tune; the default is the one in ``params.yaml``.

    Returns:
        Its name; ``None`` for training from scratch.
    """
    checkpoints = dict(SUGGESTIONS)
    if current is not None and current not in SUGGESTIONS:
        checkpoints = {current: "as in params.yaml"} | SUGGESTIONS
    names = list(checkpoints)
    lines = []
    for name, description in checkpoints.items():
        lines.append(f"{name:48} {description}")
    lines += ["another: its name on the hub, or models/source/NAME", "none: train a small model from scratch"]
    another = len(lines) - 1
    none = len(lines)

    # question and answer
    console = Console()
    console.print(Text("\nWhich checkpoint shall be fine-tuned?"))
    for number, line in enumerate(lines, 1):
        console.print(Text(f"  {number}  {line}"), soft_wrap=True)

    default = names.index(current or suggestion) + 1
    answer: int = typer.prompt("Number", default=default, type=int)
    while not 1 <= answer <= len(lines):
        console.print(f"Choose a number from 1 to {len(lines)}.")
        answer = typer.prompt("Number", default=default, type=int)
    if answer == none:
        return None
    if answer == another:
        return str(typer.prompt("Name")).strip()
    return names[answer - 1]


def choose_checkpoint(plan: Plan, params: Params) -> Checkpoint | None:
    """Ask for a checkpoint and open it, if it can be fine-tuned here; ``None`` for training from scratch."""
    current = params.model.checkpoint
    name = ask(current, suggested(plan.sample, plan.columns, plan.decision.text_columns))
    if name is None:
        return None
    # The revision in the parameters is a commit of the current checkpoint only.
    revision = params.model.revision if name == current else None
    with Console().status("Reading its configuration and tokenizer ..."):
        return open_checkpoint(name, revision)


def propose(plan: Plan, params: Params, checkpoint: Checkpoint | None) -> dict[str, Any]:
    """Print and return the proposed parameters by dotted key.

    Without a checkpoint, the model of parameters that are for this data already is kept, else it is trained
    from scratch.
    """
    console = Console()
    console.print(Text("\nModel and training"))

    # recipe
    if checkpoint is not None:
        lengths = measure_lengths(checkpoint, plan.sample, plan.columns, plan.decision.text_columns)
        recipe = fine_tuning(checkpoint, lengths, plan, params)
    elif is_current(plan, params):
        console.print(
            Text(
                "  as in params.yaml, which is for this data already; --checkpoint NAME makes a new proposal"
            )
        )
        return {}
    else:
        suggestion = suggested(plan.sample, plan.columns, plan.decision.text_columns)
        text = (
            "No --checkpoint: a small new model is trained from scratch. It learns what words mean from"
            f" these {train_rows(plan, params):,} rows alone, and seldom does better than counting words: on"
            " 10,000 news texts of 4 classes it had an accuracy of 0.84, TF-IDF with logistic regression"
            " 0.86. To fine-tune a pretrained model instead, which knows the language already:\n  tuneline"
            f" init FILE --checkpoint {suggestion}"
        )
        console.print(Text(text), soft_wrap=True)
        recipe = from_scratch(plan, params)

    for reason in recipe.reasons:
        console.print(Text(f"  {reason}"), soft_wrap=True)
    return dict(recipe.params)
