"""The second half of the pipeline of the simulated year: a naive Bayes classifier in place of a transformer,
which learns in no time.

The first half is the real one: data, tokens and checks. ``toy.py`` lies beside this script in the repository
that the test makes.
"""

import json
import shutil
import sys
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
from toy import save_bag_of_words, take_steps, write, write_table

from tuneline.tasks.schemas import read_task

MODEL = Path("models/classifier/table.npy")
TOKENIZER = Path("data/tokenized/tokenizer")


def labels() -> list[str]:
    return list(read_task(pq.read_schema("data/raw/train.parquet"), "labels").names)


def tokens(split: str) -> dict:
    return pq.read_table(f"data/tokenized/{split}.parquet", columns=["input_ids", "labels"]).to_pydict()


def train() -> None:
    """Count the tokens of each class; special tokens say nothing."""
    take_steps(20, 0.05)
    vocabulary = json.loads((TOKENIZER / "tokenizer.json").read_text())
    counts = np.ones((len(vocabulary["model"]["vocab"]), len(labels())), dtype=np.float32)
    rows = tokens("train")
    for ids, label in zip(rows["input_ids"], rows["labels"], strict=True):
        counts[ids, label] += 1
    table = np.log(counts / counts.sum(axis=0))
    table[[token["id"] for token in vocabulary["added_tokens"]]] = 0
    MODEL.parent.mkdir(parents=True)
    np.save(MODEL, table.astype(np.float32))
    write("metrics/train.json", {"steps": 20})


def evaluate() -> None:
    table, rows = np.load(MODEL), tokens("test")
    logits = np.array([table[ids].sum(axis=0) for ids in rows["input_ids"]])
    predicted = logits.argmax(axis=1).tolist()
    columns = {
        "idx": list(range(len(predicted))),
        "label": rows["labels"],
        "logits": logits.tolist(),
        "prediction": predicted,
    }
    write_table("reports/predictions.parquet", columns, labels())
    accuracy = float(np.mean(np.array(predicted) == np.array(rows["labels"])))
    write(
        "metrics/evaluate.json", {"accuracy": accuracy, "f1": accuracy, "loss": 0.5, "rows": len(predicted)}
    )


def export() -> None:
    shutil.copytree(TOKENIZER, "models/onnx")
    save_bag_of_words(np.load(MODEL), labels(), 128)


def compare() -> None:
    write("metrics/compare.json", {"fp32_max_abs_diff": 0.0, "fp32_agreement": 1.0, "fp32_published": 1})


if __name__ == "__main__":
    globals()[sys.argv[1]]()
