"""Files of JSON that hold one object instead of rows."""

import json
from pathlib import PurePath
from typing import Any

from tuneline.readers.tables import Input, open_lines
from tuneline.runtime.errors import DataError
from tuneline.runtime.wording import listed

LARGEST_OBJECT = 2**26
"""Characters of a JSON object that is read to tell what it is."""


def refuse_object(source: Input) -> None:
    """Refuse a file that is one JSON object instead of rows, and say how to convert it.

    Such an object has a list for each column, or rows under a key.
    """
    path = source.name
    with open_lines(source) as lines:
        if not lines.starts_with("{"):
            return
        first = next(iter(lines))
    try:
        value: Any = json.loads(first)
        if not all(isinstance(cell, (list, dict)) for cell in value.values()):
            return  # the first row of JSON Lines
    except ValueError:
        value = _whole_object(source)

    stem = PurePath(path).stem
    problem = f"{path} is one JSON object, not rows."
    rows = []
    if isinstance(value, dict):
        for key, cell in value.items():
            if isinstance(cell, list) and cell and isinstance(cell[0], dict):
                rows.append(key)
    if not isinstance(value, dict):
        hint = f"Write one object per line: `jq -c . {path} > {stem}.jsonl`"
    elif rows:
        hint = f"Its rows are under {listed(rows, 3)}: `jq -c '.[\"{rows[0]}\"][]' {path} > {stem}.jsonl`"
    else:
        convert = (
            f"import pandas; pandas.read_json('{path}').to_json('{stem}.jsonl', orient='records', lines=True)"
        )
        problem = (
            f"{path} is one JSON object with a list or object for each column ({listed(value, 5)}), not rows."
        )
        hint = f'Write one object per row: `python -c "{convert}"`'
    raise DataError(problem, hint)


def _whole_object(source: Input) -> Any:
    """Return the object that a file consists of, or ``None`` if it is none or a large one."""
    with open_lines(source) as lines:
        text = ""
        while len(text) <= LARGEST_OBJECT and (piece := lines.read_piece()):
            text += piece
    try:
        return json.loads(text)
    except ValueError:
        return None
