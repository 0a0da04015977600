"""The names of the kinds of task: ``tuneline/tasks`` adds its kinds, and ``params.yaml`` may name them.

It imports no library, because the import of ``tuneline/tasks`` loads NumPy and Arrow.
"""

from typing import Literal

TASK_KINDS = ["classification", "regression", "multilabel"]
"""The kinds of task that ``tuneline/tasks`` has."""
SET_KINDS = ["multilabel"]
"""The kinds of task whose labels are sets of names: ``data.label_sets`` says how they are written."""
MetricKind = Literal["classification", "regression", "multilabel"]
"""What a metric scores: classes, numbers, or sets of labels."""
