"""What surrounds the training of a run: its turn on this machine, and its checkpoints in shared storage."""

import contextlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from flows.runs.checkout import Checkout
from flows.runs.checkpoints import SharedCheckpoints
from flows.runs.machine import TrainingLock

STAGE = "train"
"""The stage whose checkpoints are shared, and from which on a run has the machine to itself: later stages measure speed."""


@dataclass(frozen=True)
class TrainingStage:
    """Waits before the training, and copies its checkpoints.

    Attributes:
        checkout: Checkout of the run.
        machine: The right to train on this machine.
        shared: Storage of its checkpoints, if one is set.
        on_line: Called with each line for the log.
    """

    checkout: Checkout
    machine: TrainingLock
    shared: SharedCheckpoints | None
    on_line: Callable[[str], None]

    @contextlib.contextmanager
    def around(self, stage: str) -> Iterator[None]:
        """Surround a stage. Only for the training something happens; the time that it waits is no part of the stage's."""
        with contextlib.ExitStack() as during:
            if stage == STAGE:
                self.machine.acquire(self.checkout.name, self.on_line)
                if self.shared is not None:
                    if fetched := self.shared.fetch(self.checkout.path):
                        self.on_line(f"Fetched checkpoint {fetched}; training resumes from it.")
                    during.enter_context(self.shared.copied(self.checkout.path))
            yield

    def end_stages(self) -> None:
        """Let the next run train: the stages of this one have ended."""
        self.machine.release()

    def end(self) -> None:
        """Remove the shared checkpoints of a run that has succeeded."""
        if self.shared is not None:
            self.shared.remove()
