"""The names of the kinds of task: ``tuneline/tasks`` adds its kinds, and ``params.yaml`` may name them.

It imports nothing, because the import of ``tuneline/tasks`` loads NumPy and Arrow.
"""

TASK_KINDS = ["classification", "regression", "multilabel"]
"""The kinds of task that ``tuneline/tasks`` has."""
SET_KINDS = ["multilabel"]
"""The kinds of task whose labels are sets of names: ``data.label_sets`` says how they are written."""
