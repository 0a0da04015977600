"""What a person does about rows that the data checks found, with the commands that they type."""

import csv
import random

import pytest

from tests.project import SMALL, Project

WORDS = [
    first + second + end
    for first in ("ba", "de", "ki", "lo")
    for second in ("mu", "na", "pe", "ri", "so")
    for end in ("n", "")
]
DATA = {
    "data.source": "files",
    "data.text_columns": ["text"],
    "data.label_column": "label",
    "tokenize.vocab_size": 300,
    "model.config": SMALL["model.config"],
}


def write_leaking_source(project: Project) -> dict[str, bytes]:
    """Write splits of which train has four rows of test and twelve wrong labels, and return the content of
    the files."""
    rng = random.Random(3)
    topics = {"spam": ["win", "money", "free"], "ham": ["see", "you", "later"]}
    rows = [
        [" ".join(rng.choices(WORDS, k=9) + topics[label]), label]
        for label in rng.choices(["spam", "ham"], k=400)
    ]
    splits = {"train": rows[:300], "validation": rows[300:350], "test": rows[350:]}
    for row in splits["train"][20:32]:
        row[1] = "ham" if row[1] == "spam" else "spam"
    splits["train"][:4] = [[text.upper(), label] for text, label in splits["test"][:4]]
    for split, own in splits.items():
        with (project.folder / f"data/source/{split}.csv").open("w", newline="", encoding="utf-8") as file:
            csv.writer(file).writerows([["text", "label"], *own])
    return {split: (project.folder / f"data/source/{split}.csv").read_bytes() for split in splits}


@pytest.mark.slow
def test_leaked_rows_are_dropped_and_a_label_is_corrected(tmp_path):
    project = Project.copy_to(tmp_path)
    project.set_params(DATA)
    source = write_leaking_source(project)
    project.commit("Set up my data")
    failed = project.run("dvc", "repro", "--quiet", "validate", check=False)
    assert "leakage, test: 4 of 50 rows (8 %)" in failed.stdout
    assert failed.returncode != 0

    assert (
        "leakage: 4 rows of train to drop."
        in project.run("tuneline", "data", "drop", "--check", "leakage", "--from", "train").stdout
    )
    done = project.run("dvc", "repro", "--quiet", "validate")
    assert "download: train 296, validation 50, test 50 rows" in done.stdout
    project.commit("Drop leaked rows")
    assert (
        project.run("git", "log", "--format=%an %s", "--", "data/corrections/dropped.csv").stdout
        == "Test Drop leaked rows\n"
    )

    project.run("tuneline", "labels", "review", "--rows", "3")
    review = project.folder / "reports/labels/review.csv"
    header, first, *rest = csv.reader(review.read_text(encoding="utf-8-sig").splitlines())
    first[header.index("correct")] = "ham" if first[header.index("label")] == "spam" else "spam"
    with review.open("w", newline="", encoding="utf-8-sig") as file:
        csv.writer(file).writerows([header, first, *rest])
    assert (
        "labels.csv: labels corrected: 1." in project.run("tuneline", "labels", "apply", str(review)).stdout
    )
    assert (
        "labels corrected: 1, rows left out: 4" in project.run("dvc", "repro", "--quiet", "download").stdout
    )

    project.run("git", "stash", "push", "--quiet", "--include-untracked", "--", "data/corrections")
    assert (
        "labels corrected: 0, rows left out: 4"
        in project.run("dvc", "repro", "--quiet", "--force", "--single-item", "download").stdout
    )
    assert source == {split: (project.folder / f"data/source/{split}.csv").read_bytes() for split in source}
