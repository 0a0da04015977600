import numpy as np
import pytest

from tuneline.metrics.judging import metrics_of, task_metrics
from tuneline.tasks import Classification, Regression

PAIR, QUEUES, NUMBER = Classification(("no", "yes")), Classification(("a", "b", "c")), Regression()


@pytest.mark.parametrize("task", [PAIR, QUEUES, NUMBER], ids=["two classes", "classes", "numbers"])
def test_table_has_the_metrics_that_training_computes(task):
    outputs = np.eye(2, max(task.outputs, 2), dtype=np.float32)[:, : task.outputs]
    labels = np.array([0, 1], dtype=task.label_type.to_pandas_dtype())
    assert list(metrics_of(outputs, labels, task)) == [
        metric.name for metric in task_metrics(task) if metric.validated
    ]
