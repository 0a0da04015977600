"""The pipeline with a checkpoint that reads thousands of tokens, by the commands of its users."""

import json
import random

import pytest

from tests.checkpoints import WORDS, write_modernbert
from tests.project import Project

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]

COMMON = WORDS[5:20]


def write_long_texts(path, rows, words):
    """Write rows of many words; the last of them gives the label."""
    generator = random.Random(0)
    lines = ["text,label"]
    for number in range(rows):
        text = " ".join(generator.choices(COMMON, k=generator.randint(words // 2, words)))
        end, label = ("a", "first") if number % 2 else ("z", "last")
        lines.append(f"{text} {end * 3},{label}")
    path.write_text("\n".join(lines) + "\n")


def test_modernbert_reads_whole_texts_without_windows(tmp_path):
    project = Project.copy_to(tmp_path / "project")
    write_modernbert(project.folder / "models/source/modern")
    write_long_texts(project.folder / "long.csv", 200, 1_800)

    # the proposal
    words = ["--checkpoint", "models/source/modern", "--yes"]
    proposed = project.run("tuneline", "init", "long.csv", *words).stdout
    assert "so texts are read whole and need no windows" in proposed
    project.set_params(
        {
            "train.epochs": None,
            "train.max_steps": 4,
            "model.head": None,
            "evaluate.behaviour": None,
            "validate.unknown_rate": 1.0,
            "compare.int8.min_agreement": 0.5,  # random weights
            "compare.int8.max_metric_drop": 0.5,
        }
    )

    # the pipeline
    project.run("dvc", "repro")
    tokens = json.loads((project.folder / "metrics/tokenize.json").read_text())
    assert tokens["truncation_rate"] <= 0.01
    assert tokens["max_tokens"] > 1_500
    compared = json.loads((project.folder / "metrics/compare.json").read_text())
    assert (compared["fp32_agreement"], compared["fp32_published"]) == (1.0, 1)
    project.run("tuneline", "predict", "long.csv", "-o", "predicted.csv")
    assert len((project.folder / "predicted.csv").read_text().splitlines()) == 201
