"""Which kinds of task there are."""

import pyarrow as pa

from tuneline.core.task_kinds import SET_KINDS, TASK_KINDS
from tuneline.tasks import TASKS


def test_parameters_know_every_kind_and_which_ones_have_sets_of_labels():
    assert list(TASKS) == TASK_KINDS
    assert [name for name, task in TASKS.items() if pa.types.is_list(task.staged_type)] == SET_KINDS
