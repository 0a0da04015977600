"""Gives Hydra the defaults of all parameters as ``/base``, from which the tasks in ``conf/task/`` start.

Hydra imports what is in the folder ``hydra_plugins``; ``.dvc/config`` says where that is. The defaults are
those of the code in this repository, not of an installed version.
"""

import sys
from pathlib import Path

from hydra.core.config_store import ConfigStore

root = str(Path(__file__).resolve().parents[4])
sys.path.insert(0, root)
try:
    from tuneline.core.params.loading import default_values
finally:
    sys.path.remove(root)

ConfigStore.instance().store("base", default_values())
