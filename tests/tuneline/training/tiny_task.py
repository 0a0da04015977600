"""A task that a model of a few thousand weights learns in seconds: the class of a row is one of its
tokens."""

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import torch
from ruamel.yaml import YAML
from tokenizers import Tokenizer, models, pre_tokenizers, processors
from transformers import PreTrainedTokenizerFast

from tests.params import complete
from tuneline.core.params import Params, RunParams
from tuneline.core.params.loading import parse_params
from tuneline.core.stage.provenance import BaseSource, PretrainedSource
from tuneline.core.stage.records import write_record
from tuneline.core.stage.tables import write_table
from tuneline.model.tasks import Task, task_with_names
from tuneline.model.tasks.columns import tokenized_schema
from tuneline.training.model import build_model

NAMES = ("billing", "delivery", "technical")
CLASSES = task_with_names(NAMES)
WORDS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *NAMES, *(f"word{index}" for index in range(24))]
MODEL = {
    "model_type": "bert",
    "hidden_size": 16,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "intermediate_size": 32,
    "max_position_embeddings": 32,
}
CHECKPOINT = "someone/bert"
FINE_TUNED: dict[str, Any] = {"checkpoint": CHECKPOINT, "config": {}}
"""Section ``model`` for the checkpoint of ``write_checkpoint``."""
WITHOUT_DROPOUT = {"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0}
TRAIN: dict[str, Any] = {
    "epochs": 2,
    "global_batch_size": 8,
    "micro_batch_size": 4,
    "learning_rate": 5e-3,
}


def tokenizer() -> PreTrainedTokenizerFast:
    words = Tokenizer(models.WordLevel({word: index for index, word in enumerate(WORDS)}, unk_token="[UNK]"))  # noqa: S106
    words.pre_tokenizer = pre_tokenizers.Whitespace()
    words.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]",
        pair="[CLS] $A [SEP] $B:1 [SEP]:1",
        special_tokens=[("[CLS]", 2), ("[SEP]", 3)],
    )
    special = {
        "pad_token": "[PAD]",
        "unk_token": "[UNK]",
        "cls_token": "[CLS]",
        "sep_token": "[SEP]",
        "mask_token": "[MASK]",
    }
    return PreTrainedTokenizerFast(tokenizer_object=words, model_max_length=32, **special)


def table(rows: int, seed: int, labels: Task = CLASSES) -> pa.Table:
    """Return rows of 6 to 17 tokens; three of them name the class, or determine the regression target."""
    random = np.random.default_rng(seed)
    classes = random.integers(len(NAMES), size=rows)
    ids = []
    for label in classes:
        fillers = random.integers(8, len(WORDS), size=random.integers(1, 13))
        ids.append([2, *random.permutation([5 + label] * 3 + fillers.tolist()).tolist(), 3])
    masks = [[1] * len(row) for row in ids]
    values = classes if labels.names else classes.astype(np.float32) / 2
    columns = {
        "input_ids": ids,
        "attention_mask": masks,
        "token_type_ids": [[0] * len(row) for row in ids],
        "labels": values,
    }
    return pa.table(columns, schema=tokenized_schema(True, labels))


def write_data(project: Path, rows: int = 60, labels: Task = CLASSES) -> None:
    """Write ``data/tokenized`` and ``models/base``.

    The default, 60 rows in batches of 8, leaves a last batch of 4.
    """
    write_record(project / "models/base/source.json", BaseSource(checkpoint=None, tokenizer=None))
    folder = project / "data/tokenized"
    tokenizer().save_pretrained(folder / "tokenizer")
    for seed, (split, count) in enumerate({"train": rows, "validation": 21, "test": 21}.items()):
        write_table(table(count, seed, labels), folder / f"{split}.parquet")


def documents(rows: int, seed: int, answer: str) -> pa.Table:
    """Return documents of one to four windows of 7 to 14 tokens, of which one names the class three times."""
    random = np.random.default_rng(seed)
    classes = random.integers(len(NAMES), size=rows)
    ids, lengths = [], []
    for label in classes:
        windows = []
        for _ in range(random.integers(1, 5)):
            fillers = random.integers(8, len(WORDS), size=random.integers(5, 10))
            windows.append([2, *fillers.tolist(), 3])
        window = windows[random.integers(len(windows))]
        window[1:1] = [5 + label] * 3
        ids.append([token for window in windows for token in window])
        lengths.append(list(map(len, windows)))
    columns = {
        "input_ids": ids,
        "attention_mask": [[1] * len(row) for row in ids],
        "token_type_ids": [[0] * len(row) for row in ids],
        "window_lengths": lengths,
        "labels": classes,
    }
    return pa.table(columns, schema=tokenized_schema(True, CLASSES, answer))


def write_documents(project: Path, rows: int = 60, answer: str = "mean") -> None:
    """Write splits of documents in windows in the place of those of ``write_data``."""
    for seed, (split, count) in enumerate({"train": rows, "validation": 21, "test": 21}.items()):
        write_table(documents(count, seed, answer), project / f"data/tokenized/{split}.parquet")


def write_checkpoint(project: Path, seed: int = 0, without: tuple[str, ...] = ()) -> None:
    """Write a checkpoint to ``models/base``, without the weights whose names begin with one of
    ``without``."""
    torch.manual_seed(seed)
    model, _ = build_model(params().model, CLASSES, tokenizer())
    weights = {name: value for name, value in model.state_dict().items() if not name.startswith(without)}
    model.save_pretrained(project / "models/base/model", state_dict=weights)
    source = PretrainedSource(name=CHECKPOINT, commit="c" * 40, license=None, sha256={})
    write_record(project / "models/base/source.json", BaseSource(checkpoint=source, tokenizer=source))


def settings(model: dict[str, Any] | None = None, **train: Any) -> dict[str, Any]:
    """Return the values of ``params.yaml``: of ``model.config``, or of ``model`` if it names a checkpoint; of
    ``train`` and ``run``."""
    given = {**TRAIN, **train}
    run = {key: given.pop(key) for key in RunParams.model_fields.keys() & given}
    section = model if model and "checkpoint" in model else {"config": {**MODEL, **(model or {})}}
    return complete({"seed": 3, "model": section, "train": given, "run": run})


def params(model: dict[str, Any] | None = None, **train: Any) -> Params:
    return parse_params(settings(model, **train))


def write_params(project: Path, model: dict[str, Any] | None = None, **train: Any) -> None:
    YAML(typ="safe").dump(settings(model, **train), project / "params.yaml")
