"""Settings of the training in flow ``train``."""

from typing import Literal

from flows.settings.section import Section


class Training(Section):
    """What a training shares with others: the machine, and its checkpoints.

    Attributes:
        one_per: ``machine``: one training at a time on a machine. ``gpu``: one on each GPU in the worker's ``CUDA_VISIBLE_DEVICES``;
            without this variable, one on the machine. ``None``: no limit.
        checkpoints: Storage that all machines reach, to which checkpoints are copied: a folder, an fsspec address, or ``dvc`` for
            the default DVC remote. ``None``: they are only in the run's checkout.
    """

    one_per: Literal["machine", "gpu"] | None = "machine"
    checkpoints: str | None = None
