"""What an answer in a long document is worth to each way with long texts, with a tiny model from scratch."""

import json
import os
import random
import shutil
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pytest

from tests.conftest import ROOT
from tests.params import write_params
from tuneline.core.stage.provenance import BaseSource
from tuneline.core.stage.records import write_record
from tuneline.core.stage.tables import write_table
from tuneline.model.tasks import Classification
from tuneline.model.tasks.columns import raw_schema

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1800)]

COLOURS = Classification(("blue", "red"))
NOISE = [first + vowel + "n" for first in "bdfg" for vowel in "aeiou"]
"""Few words, so that no document can be recognized by them."""
ANSWER_WORDS = 16
ROWS = {"train": 320, "validation": 100, "test": 2}


def write_documents(project: Path, place: str) -> None:
    """Write documents of about 2,000 tokens of noise, and in each place of them the name of the class."""
    for seed, (split, count) in enumerate(ROWS.items()):
        generator = random.Random(seed)
        texts, labels = [], []
        for _ in range(count):
            label = generator.randrange(2)
            words = (NOISE * 99)[: generator.randint(1900, 1940)]
            generator.shuffle(words)
            position = {"end": len(words), "middle": len(words) // 2}[place]
            words[position:position] = [COLOURS.names[label]] * ANSWER_WORDS
            texts.append(" ".join(words))
            labels.append(label)
        columns = {"text": texts, "labels": labels, "idx": range(count)}
        path = project / f"data/raw/{split}.parquet"
        path.parent.mkdir(parents=True, exist_ok=True)
        write_table(pa.table(columns, schema=raw_schema(("text",), COLOURS)), path)


def accuracy(project: Path, place: str, long_text: str) -> float:
    """Return the accuracy on validation of a model that was trained on such documents."""
    write_documents(project, place)
    write_record(project / "models/base/source.json", BaseSource(checkpoint=None, tokenizer=None))
    shutil.copytree(ROOT / "conf/accelerate", project / "conf/accelerate")
    write_params(
        project,
        data={"text_columns": ["text"], "label_column": "label"},
        tokenize={
            "vocab_size": 400,
            "max_length": 512,
            "long_text": long_text,
            "windows": {"stride": 8, "max_windows": 8},
        },
        model={
            "config": {
                "model_type": "bert",
                "hidden_size": 16,
                "num_hidden_layers": 1,
                "num_attention_heads": 1,
                "intermediate_size": 16,
                "max_position_embeddings": 512,
                "hidden_dropout_prob": 0.0,
                "attention_probs_dropout_prob": 0.0,
            }
        },
        train={
            "launch": "cpu",
            "epochs": 10,
            "learning_rate": 1e-2,
            "global_batch_size": 16,
            "micro_batch_size": 16,
        },
    )
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    for stage in ("stages.tokenize", "stages.train"):
        subprocess.run([sys.executable, "-m", stage], cwd=project, env=environment, check=True)
    assert json.loads((project / "metrics/tokenize.json").read_text())["max_tokens"] <= 2048
    metrics: dict[str, float] = json.loads((project / "metrics/train.json").read_text())
    return metrics["best_accuracy"]


@pytest.mark.parametrize("long_text", ["truncate", "windows"])
def test_answer_in_the_middle_is_found_by_windows_only(tmp_path, long_text):
    found = accuracy(tmp_path, "middle", long_text)
    if long_text == "windows":
        assert found >= 0.95
    else:
        assert found < 0.65
