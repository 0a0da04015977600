"""The examples of docs/custom-loss.md as files of a project."""

import re
from pathlib import Path

from tests.conftest import ROOT

_BLOCK = re.compile(r"```python\n# (project/\w+\.py)\n(.*?)```", re.DOTALL)
EXAMPLES = dict(_BLOCK.findall((ROOT / "docs/custom-loss.md").read_text(encoding="utf-8")))
"""Code by path: ``project/losses.py``, ``metrics.py``, ``checks.py`` and ``slices.py``."""
STAGES = (ROOT / "dvc.yaml").read_text(encoding="utf-8")
"""The pipeline, whose stages depend on these files."""
PIPELINE = "stages: {validate: {deps: [project]}, train: {deps: [project]}, evaluate: {deps: [project]}}\n"


def write_functions(folder: Path, files: dict[str, str] = EXAMPLES, pipeline: str = PIPELINE) -> None:
    """Write files of the user, and a ``dvc.yaml`` whose stages depend on them."""
    (folder / "project").mkdir(exist_ok=True)
    for path, code in {"project/__init__.py": "", **files}.items():
        (folder / path).write_text(code, encoding="utf-8")
    (folder / "dvc.yaml").write_text(pipeline, encoding="utf-8")
