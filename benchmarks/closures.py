"""Modules and lines that each entry point reads, by its imports, those inside functions included.

Run: ``python -m benchmarks.closures [MODULE ...]``
"""

import sys
from pathlib import Path

from tests.imports import closure

ROOT = Path(__file__).parents[1]
MOST = {
    "stages.tokenize.__main__": 45,
    "stages.download.__main__": 65,
    "stages.train.__main__": 83,
    "stages.compare.__main__": 67,
    "tuneline.program.text_classifier": 28,
    "tuneline.program.occlusion": 30,
    "tuneline.cli.predict": 67,
    "tuneline.cli.evaluate": 118,
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
