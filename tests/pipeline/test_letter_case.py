"""A cased checkpoint whose configuration does not say so, on labels that only the letter case tells."""

import csv
import json
import random
from pathlib import Path

import pytest

from tests.project import Project
from tests.small_pipeline import tiny_model
from tests.tokenizer_families import FAMILIES

CHECKPOINT = "models/source/cased"
ROWS = 1200
ENDINGS = [first + vowel + last for first in "bdgk" for vowel in "aeiou" for last in "ln"]
WORDS = [first + second for first in ("ba", "de", "fi", "go", "lu") for second in ENDINGS]


def write_checkpoint(folder: Path) -> None:
    """Write random weights with a cased tokenizer, whose configuration has no ``do_lower_case``."""
    FAMILIES["BERT, cased"].write(folder)
    file = folder / "tokenizer.json"
    contents = json.loads(file.read_text())
    vocabulary = contents["model"]["vocab"]
    for word in WORDS:
        for spelling in (word, word.upper()):
            vocabulary.setdefault(spelling, len(vocabulary))
    file.write_text(json.dumps(contents))
    assert "do_lower_case" not in json.loads((folder / "tokenizer_config.json").read_text())
    tiny_model("bert", 2, len(vocabulary), ("lower", "upper")).save_pretrained(folder)


def write_rows(file: Path) -> None:
    """Write texts of the same words in lower and in upper case; the label is the case."""
    generator = random.Random(0)
    with file.open("w", newline="") as opened:
        writer = csv.writer(opened)
        writer.writerow(["text", "label"])
        for _ in range(ROWS):
            text = " ".join(generator.choices(WORDS, k=12))
            label = generator.choice(["lower", "upper"])
            writer.writerow([text.upper() if label == "upper" else text, label])


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_cased_checkpoint_learns_the_letter_case(tmp_path):
    project = Project.copy_to(tmp_path)
    write_checkpoint(tmp_path / CHECKPOINT)
    write_rows(tmp_path / "case.csv")
    project.run("tuneline", "init", "case.csv", "--checkpoint", CHECKPOINT, "--yes")
    # random weights, which have to learn every word
    project.set_params({"model.head": None, "train.learning_rate": 5e-3, "train.keep": "best"})
    project.run("dvc", "repro")
    evaluated = json.loads((tmp_path / "metrics/evaluate.json").read_text())
    assert evaluated["accuracy"] > 0.95
