"""Metrics as DVC compares them: flat, finite, rounded, in a stable order."""

import json
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tuneline.files.atomic import replace_file

DIGITS = 6


def write_json(path: Path, value: Any) -> None:
    """Writes ``value`` as indented JSON, with a newline at the end.

    Raises:
        ValueError: A number in it is NaN or infinite, which JSON does not have.
    """
    text = json.dumps(value, indent=2, ensure_ascii=False, allow_nan=False)
    with replace_file(path) as partial:
        partial.write_text(text + "\n", encoding="utf-8")


def write_metrics(path: Path, metrics: Mapping[str, float]) -> None:
    """Writes one flat object of numbers, rounded to 6 digits after the point, for ``dvc metrics``.

    Raises:
        ValueError: A metric is NaN or infinite; the message names it.
    """
    for name, value in metrics.items():
        if not math.isfinite(value):
            raise ValueError(f"metric {name!r} is {value}: {path} would not be valid JSON")
    write_json(path, {name: value if isinstance(value, int) else round(float(value), DIGITS) for name, value in metrics.items()})
