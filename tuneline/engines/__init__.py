"""Where work on shards is done: in this process, or on the workers of a Ray cluster (``run.engine``).

The engine is no parameter of the data. A task depends on nothing but its argument and on files, writes a
large result to a file of its own (``replace_file``), and returns a small one. So the files and the results
are the same wherever, in whatever order, and however often a task is run.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Literal, Protocol, TypeVar

T = TypeVar("T")
R = TypeVar("R")


@dataclass(frozen=True)
class EngineOptions:
    """The choice that a command makes by its options.

    ``workers`` is the number of tasks at a time on Ray; ``None``: one for each CPU of the cluster.
    """

    engine: Literal["local", "ray"] = "local"
    workers: int | None = None


class EngineChoice(Protocol):
    """Engine and number of workers: ``EngineOptions``, or the section ``run`` of ``params.yaml``."""

    @property
    def engine(self) -> Literal["local", "ray"]:
        """Where the work is done."""

    @property
    def workers(self) -> int | None:
        """Number of tasks at a time on Ray."""


@contextmanager
def engine(run: EngineChoice) -> Iterator[None]:
    """Keep the engine for all calls of ``map_tasks`` in the block.

    Without it, each of them starts a cluster of its own.
    """
    if run.engine == "local":
        yield
        return
    from tuneline.engines.ray_tasks import ray_cluster

    with ray_cluster(run.workers):
        yield


def map_tasks(function: Callable[[T], R], tasks: Sequence[T], run: EngineChoice, *, name: str) -> Iterator[R]:
    """Run a function on tasks, and yield the results in the order of the tasks.

    Args:
        function: Function of a module (not of ``__main__``), which a worker imports. What is costly to load
            and the same for all tasks, such as a model, it keeps in a ``functools.cache``: a worker runs many
            tasks.
        tasks: Picklable. Paths in them are relative to the current folder, which is that of the workers, too.
        run: Engine and number of workers.
        name: What is shown as the title of the progress, for example ``tokenize``.

    Yields:
        What the function returns: small and picklable.

    Raises:
        StageError: A task failed, the first one in the order of the tasks; or Ray is not installed, cannot be
            reached, or its workers have another version of the code or the libraries.
    """
    if run.engine == "local":
        yield from map(function, tasks)
    elif tasks:
        from tuneline.engines.ray_tasks import map_on_ray

        yield from map_on_ray(function, tasks, run.workers, name)
