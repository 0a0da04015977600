"""Which kinds of task there are."""

import pyarrow as pa

from tuneline.core.task_kinds import SET_KINDS, TASK_KINDS
from tuneline.tasks import TASKS, unnamed_task
from tuneline.tasks.columns import staged_type


def test_parameters_know_every_kind_and_which_ones_have_sets_of_labels():
    assert list(TASKS) == TASK_KINDS
    sets = [name for name in TASKS if pa.types.is_list(staged_type(unnamed_task(name)))]
    assert sets == SET_KINDS
