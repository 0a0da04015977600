"""Modules of the project run one after the other in one process: their imports take most of the time.

``python -m tests.several_modules MODULE [MODULE ...] [-- ARGUMENT ...]`` runs each as ``python -m`` does.
"""

import runpy
import sys
from collections.abc import Sequence


def run_modules(words: Sequence[str]) -> None:
    """Run modules, with the arguments after ``--``; stop at the first that fails."""
    modules, _, arguments = " ".join(words).partition(" -- ")
    for module in modules.split():
        sys.argv = [module, *arguments.split()]
        try:
            runpy.run_module(module, run_name="__main__")
        except SystemExit as end:
            if end.code:
                raise


if __name__ == "__main__":
    run_modules(sys.argv[1:])
