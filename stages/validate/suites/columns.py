"""What is expected of the columns of a split: that they are there, with their types and label names."""

import html
from collections.abc import Mapping

import pandas as pd
import pyarrow as pa
from great_expectations.expectations.expectation import Expectation

from stages.validate.expectations import ExpectColumnPairValuesToBeEqual
from stages.validate.suites.table import expect
from tuneline.errors import DataError
from tuneline.files.schemas import LabelSchema
from tuneline.params import ValidateParams

ABSENT = "absent"


def columns_suite(params: ValidateParams) -> list[Expectation]:
    """What is expected of a split's columns."""
    return [expect(ExpectColumnPairValuesToBeEqual, "columns", params, column_A="expected", column_B="found")]


def columns_table(schemas: Mapping[str, tuple[pa.Schema, pa.Schema]]) -> pd.DataFrame:
    """One row per column, with what it should be and what it is.

    Args:
        schemas: The expected schema and the one found, by the kind of table they are of.
    """
    rows = []
    for kind, (expected, found) in schemas.items():
        wanted, there = described(expected), described(found)
        names = sorted(wanted.keys() | there.keys())
        rows += [[f"{kind} {name}: {types.get(name, ABSENT)}" for types in (wanted, there)] for name in names]
    # Names are the user's, and end up in pages that Great Expectations makes.
    frame = pd.DataFrame([[html.escape(value) for value in row] for row in rows], columns=["expected", "found"], dtype=object)
    frame.insert(0, "row", range(len(frame)))
    return frame


def described(schema: pa.Schema) -> dict[str, str]:
    """The type of each column, and the names of the labels."""
    types = {field.name: f"list of {field.type.value_type}" if pa.types.is_list(field.type) else str(field.type) for field in schema}
    try:
        names = LabelSchema.of(schema).names
    except DataError:
        return types
    return {**types, "names of labels": "numbers" if names is None else ", ".join(names)}


def same(expected: pa.Schema, found: pa.Schema) -> bool:
    """Whether columns can be derived from a file."""
    return described(expected) == described(found)
