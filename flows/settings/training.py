"""Settings of the training in flow ``train``."""

import shlex
from typing import Literal

from flows.settings.section import Section

LAUNCHER = "TUNELINE_LAUNCHER"
"""Environment variable that ``stages/train/launch.py`` reads."""


class Training(Section):
    """What a training shares with others: the machine, and its checkpoints.

    Attributes:
        one_per: ``machine``: one training at a time on a machine. ``gpu``: one on each GPU in the worker's ``CUDA_VISIBLE_DEVICES``;
            without this variable, one on the machine. ``None``: no limit.
        command: What starts the training on several machines and waits for it: ``[srun, --nodes=2, ...]``. Without it, the worker's
            machine trains.
        checkpoints: Storage that all machines reach, to which checkpoints are copied: a folder, an fsspec address, or ``dvc`` for
            the default DVC remote. ``None``: they are only in the run's checkout.
    """

    one_per: Literal["machine", "gpu"] | None = "machine"
    command: list[str] = []
    checkpoints: str | None = None

    @property
    def environment(self) -> dict[str, str]:
        """Environment variable with which the training stage starts through ``command``."""
        return {LAUNCHER: shlex.join(self.command)} if self.command else {}
