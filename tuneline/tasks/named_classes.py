"""What tasks have in common whose outputs are classes with names."""

from collections.abc import Sequence
from typing import Any, ClassVar, Self

from tuneline.tasks.task import Task


class NamedClasses(Task):
    """A kind of task in which a model has one logit for each of several names.

    It is constructed from the names alone.
    """

    names: tuple[str, ...]

    class_term: ClassVar[str] = "class"
    """What messages call a name."""
    class_terms: ClassVar[str] = "classes"
    """What messages call several names."""
    has_classes: ClassVar[bool] = True

    @property
    def outputs(self) -> int:
        """One for each name."""
        return len(self.names)

    @property
    def output_names(self) -> tuple[str, ...]:
        """The names."""
        return self.names

    @classmethod
    def of_outputs(cls, names: Sequence[str]) -> Self:
        """Return the task with these names."""
        construct: Any = cls
        task: Self = construct(tuple(names))
        return task
