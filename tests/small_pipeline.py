"""Outputs of a pipeline up to ``evaluate``, written in seconds: a tiny classifier with random weights, its
data and predictions."""

import json
import random
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from tests.params import change_params, write_params
from tuneline.core.stage.provenance import BaseSource, StageProvenance, provenance_file
from tuneline.core.stage.records import write_record
from tuneline.core.stage.tables import LABELS, SplitReader, write_table
from tuneline.judge.metrics.predictions import Predictions, write_baselines, write_predictions
from tuneline.model.tasks import Task, task_with_names
from tuneline.model.tasks.columns import raw_schema, tokenized_schema
from tuneline.model.tokens.batches import compute_by_length
from tuneline.model.tokens.encoded_columns import Encoder
from tuneline.model.tokens.long_text import LongText
from tuneline.model.tokens.tokenized_splits import TokenizedSplit

QUEUES = ("billing", "delivery", "returns")
MAX_LENGTH = 24
ROWS = {"train": 60, "validation": 30, "test": 50}
WORDS = (
    "the parcel invoice is fine now but was missing again please help me with my refund order and late"
    " payment".split()
)

SMALL = {
    "hidden_size": 16,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "intermediate_size": 32,
    "max_position_embeddings": 64,
}
FAMILIES: dict[str, dict[str, Any]] = {
    "bert": SMALL,
    "distilbert": {"dim": 16, "n_layers": 2, "n_heads": 2, "hidden_dim": 32, "max_position_embeddings": 64},
    "roberta": {**SMALL, "type_vocab_size": 1, "pad_token_id": 1},
    "albert": {**SMALL, "embedding_size": 8},
    "electra": {**SMALL, "embedding_size": 8},
    "deberta-v2": {  # as microsoft/deberta-v3-* has it
        **SMALL,
        "type_vocab_size": 0,
        "relative_attention": True,
        "position_buckets": 8,
        "norm_rel_ebd": "layer_norm",
        "share_att_key": True,
        "pos_att_type": ["p2c", "c2p"],
        "position_biased_input": False,
        "max_relative_positions": -1,
        "pooler_hidden_size": 16,
    },
    # BERT's shape, narrow and deep
    "minilm": {**SMALL, "model_type": "bert", "num_attention_heads": 4, "num_hidden_layers": 3},
    "modernbert": {
        **SMALL,
        "global_attn_every_n_layers": 2,
        "local_attention": 8,
        "pad_token_id": 0,
        "bos_token_id": 1,
        "eos_token_id": 2,
        "cls_token_id": 1,
        "sep_token_id": 2,
    },
}
"""Tiny configurations of the supported model architectures."""


def tiny_model(
    family: str,
    outputs: int,
    vocab_size: int = 120,
    names: tuple[str, ...] | None = None,
    pooling: str = "cls",
):
    """Return a classifier with random weights, large enough that the logits of rows differ."""
    import torch
    from transformers import AutoConfig, AutoModelForSequenceClassification

    values = dict(FAMILIES[family])
    labels = names or tuple(f"label {position}" for position in range(outputs))
    config = AutoConfig.for_model(
        values.pop("model_type", family),
        vocab_size=vocab_size,
        id2label=dict(enumerate(labels)),
        label2id={name: position for position, name in enumerate(labels)},
        problem_type="regression" if outputs == 1 else "single_label_classification",
        classifier_pooling=pooling,
        **values,
    )
    torch.manual_seed(0)
    model = AutoModelForSequenceClassification.from_config(config, attn_implementation="eager").eval()
    for parameter in model.parameters():
        torch.nn.init.normal_(parameter, std=0.3)
    return model


def write_pipeline(
    folder: Path,
    regression: bool = False,
    changes: dict[str, Any] | None = None,
    long_text: LongText | None = None,
    columns: tuple[str, ...] = ("subject", "body"),
    *,
    labels: Task | None = None,
) -> None:
    """Write everything that ``export`` and ``compare`` read.

    Args:
        folder: Root of the project.
        regression: Predict a number instead of three classes.
        changes: Values for ``params.yaml`` by dotted key.
        long_text: What becomes of long texts; ``None``: they are truncated.
        columns: The text columns, one or two.
        labels: Another task of three classes.
    """
    from tuneline.model.tokens.tokenizer import save_tokenizer
    from tuneline.model.tokens.wordpiece import train_wordpiece

    labels = labels or task_with_names(None if regression else QUEUES)
    generator = random.Random(0)
    texts = {
        split: [(_text(generator, 1, 4), _text(generator, 1, 30)) for _ in range(rows)]
        for split, rows in ROWS.items()
    }
    tokenizer = train_wordpiece(lambda: iter([WORDS] * 3), 120)
    long_text = long_text or LongText()
    save_tokenizer(tokenizer, MAX_LENGTH, folder / "data/tokenized/tokenizer", long_text)
    for split, rows in texts.items():
        answers = [generator.random() if regression else generator.randrange(len(QUEUES)) for _ in rows]
        raw = dict(zip(("subject", "body"), zip(*rows, strict=True), strict=True))
        raw = {name: raw[name] for name in columns}
        (folder / "data/raw").mkdir(parents=True, exist_ok=True)
        write_table(
            pa.table({**raw, LABELS: answers, "idx": range(len(rows))}, schema=raw_schema(columns, labels)),
            folder / f"data/raw/{split}.parquet",
        )
        pairs = len(columns) == 2
        encoder = Encoder(tokenizer, MAX_LENGTH, pairs=pairs, long_text=long_text)
        encoded = encoder.columns(encoder.encode(rows if pairs else list(raw[columns[0]])))
        schema = tokenized_schema(True, labels, long_text.answer)
        table = pa.table({**encoded, LABELS: answers}, schema=schema)
        write_table(table, folder / f"data/tokenized/{split}.parquet")
    (folder / "data/raw/source.json").write_text(
        json.dumps({"source": "sample", "splits": {}, "label_names": labels.names})
    )
    model = tiny_model("bert", labels.outputs, len(tokenizer), labels.names)
    save_tokenizer(tokenizer, MAX_LENGTH, folder / "models/classifier", long_text)
    model.save_pretrained(folder / "models/classifier")
    _predict(folder, model)
    _write_settings(folder, {"data.text_columns": list(columns), **(changes or {})})


def _text(generator: random.Random, least: int, most: int) -> str:
    return " ".join(generator.choices(WORDS, k=generator.randint(least, most)))


def _predict(folder: Path, model: Any) -> None:
    """Write the outputs of ``evaluate``."""
    import torch

    split = TokenizedSplit.read(SplitReader.open(folder / "data/tokenized", "test", "tokenize"))

    def compute(rows: Any) -> Any:
        inputs = {name: torch.from_numpy(values) for name, values in split.pad(rows, 0).items()}
        return split.answers(model(**inputs).logits.numpy(), rows)

    logits = np.empty((len(split), split.task.outputs), dtype=np.float32)
    with torch.inference_mode():
        compute_by_length(compute, split.lengths, 16, logits, windows=split.window_counts)
    (folder / "reports/baselines").mkdir(parents=True)
    predictions = Predictions.of_logits(split.labels, logits, split.task)
    write_predictions(folder / "reports/predictions.parquet", predictions)
    simple = {"majority": np.zeros_like(split.labels)}
    write_baselines(folder / "reports/baselines/test.parquet", split.task, list(simple), [simple])


def _write_settings(folder: Path, changes: dict[str, Any]) -> None:
    """Write the parameters, and the provenance of the earlier stages."""
    write_params(folder)
    change_params(folder, {"tokenize.max_length": MAX_LENGTH, **changes})
    record = StageProvenance(parameters={"seed": 42}, code="c" * 64, libraries={"torch": "2.13.0"})
    for stage in ("base", "download", "tokenize", "train"):
        write_record(folder / provenance_file(stage), record)
    write_record(folder / "models/base/source.json", BaseSource(checkpoint=None, tokenizer=None))
