"""The folder that the process of a run works in: that of the flows which its worker has installed, wherever it is on that machine."""

import os
from pathlib import Path


def enter() -> dict[str, str]:
    """Change to the folder of the flows; the step ``pull`` in ``prefect.yaml``, which each worker executes for a run.

    Returns:
        ``directory``, as Prefect expects it.
    """
    folder = str(Path(__file__).parents[2])
    os.chdir(folder)
    return {"directory": folder}
