"""The recipe of a project by hand, in one process: Trainer, torch's exporter, ``quantize_dynamic``.

``python -m benchmarks.published.by_hand FOLDER`` in the root of a project whose stage ``download`` has run:
the same rows, checkpoint, epochs, batch and rate, in float32 as the Trainer does by default. Writes
``model.onnx`` and ``model.int8.onnx`` to the folder; the last line printed has the seconds of each step and
the metrics on test.

``optimum-cli export onnx`` is no step of it: it refuses transformers 5 (huggingface/optimum-onnx#114).
"""

import argparse
import json
import logging
import os
import time
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pyarrow.parquet as pq
import torch
from datasets import Dataset
from numpy.typing import NDArray
from onnxruntime.quantization import quantize_dynamic
from transformers import (
    AutoModelForSequenceClassification,
    AutoTokenizer,
    DataCollatorWithPadding,
    PreTrainedTokenizerBase,
    Trainer,
    TrainingArguments,
    set_seed,
)

from tuneline.core.params.loading import read_yaml
from tuneline.core.paths import PARAMS, RAW

EVALUATION_BATCH = 64


@contextmanager
def timed(seconds: dict[str, float], step: str) -> Iterator[None]:
    """Measure a step."""
    started = time.perf_counter()
    yield
    seconds[step] = round(time.perf_counter() - started, 1)


def tokenized(tokenizer: PreTrainedTokenizerBase, split: str, params: dict[str, Any]) -> Dataset:
    """Return the rows of a split: token ids and labels."""
    rows = pq.read_table(RAW / f"{split}.parquet").to_pydict()
    encoded = tokenizer(
        rows[params["data"]["text_columns"][0]], truncation=True, max_length=params["tokenize"]["max_length"]
    )
    return Dataset.from_dict({**encoded, "labels": rows["labels"]})


def train(rows: Dataset, params: dict[str, Any], collate: DataCollatorWithPadding, folder: Path) -> None:
    """Fine-tune the checkpoint with the epochs, batch, rate and warmup of a project; write it to a folder."""
    set_seed(params["seed"])
    model = AutoModelForSequenceClassification.from_pretrained(
        params["model"]["checkpoint"], num_labels=len(set(rows["labels"]))
    )
    values = params["train"]
    arguments = TrainingArguments(
        output_dir=str(folder),
        learning_rate=values["learning_rate"],
        num_train_epochs=values["epochs"],
        per_device_train_batch_size=values["global_batch_size"],
        warmup_steps=values["warmup_ratio"],  # transformers 5: below 1, a fraction of the steps
        use_cpu=True,
        report_to=[],
        save_strategy="no",
        disable_tqdm=True,
    )
    trainer = Trainer(model, arguments, data_collator=collate, train_dataset=rows)
    trainer.train()
    trainer.save_model(str(folder))


def export(folder: Path, collate: DataCollatorWithPadding, rows: Dataset, path: Path) -> None:
    """Write the model of a folder as ONNX, for any number of rows and tokens."""
    model = AutoModelForSequenceClassification.from_pretrained(folder)
    example = dict(collate([rows[0], rows[1]]))
    del example["labels"]
    shape = {0: torch.export.Dim("batch"), 1: torch.export.Dim("sequence")}
    torch.onnx.export(
        model.eval(),
        (),
        str(path),
        kwargs=example,
        output_names=["logits"],
        dynamo=True,
        dynamic_shapes=dict.fromkeys(example, shape),
        external_data=False,
        verbose=False,
    )


def predictions(path: Path, rows: Dataset, collate: DataCollatorWithPadding) -> NDArray[np.int64]:
    """Return the class that an ONNX model predicts for each row."""
    session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    names = [value.name for value in session.get_inputs()]
    predicted = []
    for start in range(0, len(rows), EVALUATION_BATCH):
        batch = collate(list(rows.select(range(start, min(start + EVALUATION_BATCH, len(rows))))))
        (logits,) = session.run(["logits"], {name: batch[name].numpy() for name in names})
        predicted.append(logits.argmax(axis=1))
    return np.concatenate(predicted)


def main() -> None:
    """Train, export, quantize and evaluate; print the measurements."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    folder = parser.parse_args().folder
    warnings.simplefilter("ignore")  # exporters warn about their own internals
    logging.disable(logging.WARNING)
    os.environ["TOKENIZERS_PARALLELISM"] = "false"
    params = read_yaml(PARAMS)
    folder.mkdir(parents=True, exist_ok=True)
    seconds: dict[str, float] = {}

    with timed(seconds, "tokenize"):
        tokenizer = AutoTokenizer.from_pretrained(params["model"]["checkpoint"])
        collate = DataCollatorWithPadding(tokenizer)
        rows, test = (tokenized(tokenizer, split, params) for split in ("train", "test"))
    with timed(seconds, "train"):
        train(rows, params, collate, folder / "trained")
    with timed(seconds, "export"):
        export(folder / "trained", collate, rows, folder / "model.onnx")
    with timed(seconds, "quantize"):
        graph = onnx.load(folder / "model.onnx")
        del graph.graph.value_info[:]  # shapes of torch's exporter, which the quantizer finds inconsistent
        quantize_dynamic(graph, folder / "model.int8.onnx")
    with timed(seconds, "evaluate"):
        fp32 = predictions(folder / "model.onnx", test, collate)
        int8 = predictions(folder / "model.int8.onnx", test, collate)

    labels = np.asarray(test["labels"])
    metrics = {
        "accuracy": float(np.mean(fp32 == labels)),
        "int8 accuracy": float(np.mean(int8 == labels)),
        "int8 agreement": float(np.mean(fp32 == int8)),
    }
    print(json.dumps({"seconds": seconds, "metrics": metrics}))


if __name__ == "__main__":
    main()
