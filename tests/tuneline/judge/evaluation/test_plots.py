import csv
import subprocess
import sys

import numpy as np

from tuneline.judge.evaluation.plots import write_plots, write_rows
from tuneline.judge.metrics.predictions import Predictions
from tuneline.model.tasks import Classification, Regression

FILES = ["calibration.csv", "confusion.csv", "precision_recall.csv", "roc.csv", "scatter.csv"]


def rows(path):
    with path.open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def test_class_name_is_no_markup_in_the_page_of_dvc_plots(tmp_path):
    name = "</script><script>alert(1)</script><!--"
    predictions = Predictions.of_logits(
        np.array([1, 0]), np.eye(2, dtype=np.float32), Classification((name, "b"))
    )
    write_plots(tmp_path, predictions)
    write_rows(tmp_path / "slices.csv", ("slice", "score", "rows"), [(f"label: {name}", "0.5", 2)])
    command = [sys.executable, "-m", "dvc", "plots", "show", "confusion.csv", "slices.csv"]
    for words in (["git", "init", "-q"], [sys.executable, "-m", "dvc", "init", "-q"], command):
        subprocess.run(words, cwd=tmp_path, check=True, capture_output=True)
    page = (tmp_path / "dvc_plots/index.html").read_text(encoding="utf-8")
    assert r"\u003c/script>" in page, "the names are in it"
    assert "<script>alert" not in page
    assert "<!--" not in page.partition("<body>")[2]


def test_plots_of_the_other_task_are_empty(tmp_path):
    for name, logits, labels, task in [
        ("classes", np.eye(3, dtype=np.float32), np.arange(3), Classification(("a", "b", "c"))),
        ("numbers", np.ones((3, 1), dtype=np.float32), np.ones(3, dtype=np.float32), Regression()),
    ]:
        (tmp_path / name).mkdir()
        write_plots(tmp_path / name, Predictions.of_logits(labels, logits, task))
        assert sorted(path.name for path in (tmp_path / name).iterdir()) == FILES
        filled = {path.stem for path in (tmp_path / name).iterdir() if rows(path)}
        assert filled == (
            {"calibration", "confusion", "precision_recall", "roc"} if task.has_classes else {"scatter"}
        )
