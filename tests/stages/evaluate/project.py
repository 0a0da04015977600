"""A project with a tiny untrained classifier and its data, in which the stage runs in a second."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa

from tests.params import write_params
from tests.stages.tokenize.raw_splits import sentences, write_raw
from tuneline.core.stage.tables import write_table
from tuneline.judge.metrics import predictions as files
from tuneline.model.tasks import Classification, Task
from tuneline.model.tasks.columns import tokenized_schema
from tuneline.model.tokens.encoded_columns import Encoder
from tuneline.model.tokens.tokenizer import save_tokenizer
from tuneline.model.tokens.wordpiece import train_wordpiece
from tuneline.training.model import problem_type

QUEUES = Classification(("billing", "delivery", "technical"))


def labels_of(rows: int, labels: Task, seed: int) -> list[float]:
    random = np.random.default_rng(seed)
    if labels.names is None:
        return random.normal(2.5, 1.0, rows).astype(np.float32).tolist()
    return random.choice(
        len(labels.names), rows, p=[0.5, *[0.5 / (len(labels.names) - 1)] * (len(labels.names) - 1)]
    ).tolist()


def write_project(folder: Path, labels: Task = QUEUES, rows: int = 45) -> None:
    """Writes parameters, raw and tokenized splits, and an untrained BERT under ``models/classifier``."""
    write_params(folder)
    tokenizer = train_wordpiece(lambda: iter([sentences(200)]), 250)
    for seed, split in enumerate(("train", "validation", "test")):
        texts = [sentences(rows, seed=10 * seed + column) for column in range(2)]
        answers = labels_of(rows, labels, seed)
        write_raw(folder / f"data/raw/{split}.parquet", texts, answers, labels)
        encoder = Encoder(tokenizer, 32, pairs=True)
        columns = encoder.columns(encoder.encode(list(zip(*texts, strict=True))))
        (folder / "data/tokenized").mkdir(exist_ok=True)
        write_table(
            pa.table({**columns, "labels": answers}, schema=tokenized_schema(True, labels)),
            folder / f"data/tokenized/{split}.parquet",
        )
    save_tokenizer(tokenizer, 32, folder / "data/tokenized/tokenizer")
    write_classifier(folder / "models/classifier", labels, folder / "data/tokenized/tokenizer")
    write_baselines(folder, labels, rows)


def write_baselines(folder: Path, labels: Task, rows: int) -> None:
    """Write what two simple models predict for two splits."""
    (folder / "reports/baselines").mkdir(parents=True)
    columns = {"majority": [0] * rows, "tfidf": labels_of(rows, labels, seed=7)}
    for split in ("validation", "test"):
        files.write_baselines(folder / f"reports/baselines/{split}.parquet", labels, list(columns), [columns])


def write_classifier(folder: Path, labels: Task, tokenizer: Path) -> None:
    """Write an untrained BERT whose weights are large enough that the logits of rows differ."""
    import torch
    from transformers import AutoTokenizer, BertConfig, BertForSequenceClassification

    words = AutoTokenizer.from_pretrained(tokenizer)
    names: Sequence[str] = labels.names or ("LABEL_0",)
    config = BertConfig(
        vocab_size=len(words),
        hidden_size=16,
        num_hidden_layers=2,
        num_attention_heads=2,
        intermediate_size=32,
        max_position_embeddings=32,
        initializer_range=0.5,
        id2label=dict(enumerate(names)),
        label2id={name: index for index, name in enumerate(names)},
        problem_type=problem_type(labels),
    )
    torch.manual_seed(0)
    BertForSequenceClassification(config).save_pretrained(folder)
    words.save_pretrained(folder)
