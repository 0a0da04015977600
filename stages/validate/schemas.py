"""The columns of the files of a split, with their types and label names, compared with what they should be."""

import html
from collections.abc import Mapping

import pandas as pd
import pyarrow as pa

from tuneline.errors import DataError
from tuneline.files.schemas import LabelSchema


def schema_frame(schemas: Mapping[str, tuple[pa.Schema, pa.Schema]]) -> pd.DataFrame:
    """Return one row per column of a split, with its expected and its actual type.

    Args:
        schemas: The expected and the actual schema, by kind of file.
    """
    rows = []
    for kind, pair in schemas.items():
        expected, actual = (described(schema) for schema in pair)
        names = sorted(expected.keys() | actual.keys())
        rows += [[f"{kind} {name}: {types.get(name, 'absent')}" for types in (expected, actual)] for name in names]
    # Column and label names are user input, and Great Expectations does not escape them in its pages.
    return pd.DataFrame([[html.escape(value) for value in row] for row in rows], columns=["expected", "found"], dtype=object)


def described(schema: pa.Schema) -> dict[str, str]:
    """Return the type of each column, and the names of the labels."""
    types = {field.name: f"list of {field.type.value_type}" if pa.types.is_list(field.type) else str(field.type) for field in schema}
    try:
        names = LabelSchema.of(schema).names
    except DataError:
        return types
    return {**types, "names of labels": "numbers" if names is None else ", ".join(names)}
