import csv

import numpy as np

from stages.evaluate.plots import SCATTERED, write_plots
from tuneline.files.schemas import LabelSchema

FILES = ["calibration.csv", "confusion.csv", "precision_recall.csv", "roc.csv", "scatter.csv"]


def rows(path):
    with path.open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def test_confusion_plot_has_class_names(tmp_path):
    names = ('a "quoted", one', "<b>ü</b>")
    write_plots(tmp_path, np.array([[1, 0], [0, 1], [1, 0]], dtype=np.float32), np.array([0, 0, 1]), LabelSchema(names))
    assert rows(tmp_path / "confusion.csv") == [
        {"actual": names[0], "predicted": names[0]},
        {"actual": names[0], "predicted": names[1]},
        {"actual": names[1], "predicted": names[0]},
    ]


def test_plots_of_the_other_task_are_empty(tmp_path):
    for name, logits, labels, label_schema in [
        ("classes", np.eye(3, dtype=np.float32), np.arange(3), LabelSchema(("a", "b", "c"))),
        ("numbers", np.ones((3, 1), dtype=np.float32), np.ones(3, dtype=np.float32), LabelSchema(None)),
    ]:
        (tmp_path / name).mkdir()
        write_plots(tmp_path / name, logits, labels, label_schema)
        assert sorted(path.name for path in (tmp_path / name).iterdir()) == FILES
        filled = {path.stem for path in (tmp_path / name).iterdir() if rows(path)}
        assert filled == ({"scatter"} if label_schema.is_regression else {"calibration", "confusion", "precision_recall", "roc"})


def test_scatter_plot_has_a_limited_number_of_points(tmp_path):
    count = SCATTERED * 3 + 1
    write_plots(tmp_path, np.arange(count, dtype=np.float32)[:, None], np.arange(count, dtype=np.float32), LabelSchema(None))
    points = rows(tmp_path / "scatter.csv")
    assert SCATTERED / 2 < len(points) <= SCATTERED
    assert all(point["actual"] == point["predicted"] for point in points)
