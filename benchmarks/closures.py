"""Modules and lines that each entry point reads, by its imports, those inside functions included.

Run: ``python -m benchmarks.closures [MODULE ...]``
"""

import sys
from pathlib import Path

from tests.imports import closure

ROOT = Path(__file__).parents[1]
MOST = {
    "stages.tokenize": 27,
    "stages.download": 36,
    "stages.train": 60,
    "stages.compare": 44,
    "tuneline.serve.text_classifier": 18,
    "tuneline.serve.occlusion": 15,
    "tuneline.cli.init": 55,
    "tuneline.cli.predict": 45,
    "tuneline.cli.evaluate": 69,
}
"""Most modules of each entry point, with a little room: ``tests/test_closures.py`` holds them."""


def main(entries: list[str]) -> None:
    """Print a line for each entry point."""
    for entry in entries:
        modules = closure(entry, ROOT)
        lines = 0
        for module in modules:
            lines += len((ROOT / module).read_text(encoding="utf-8").splitlines())
        print(f"{entry:36} {len(modules):4} modules {lines:7,} lines")


if __name__ == "__main__":
    main(sys.argv[1:] or list(MOST))
