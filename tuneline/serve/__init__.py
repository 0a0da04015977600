"""Answers of an exported model: in a program, on files, behind a port."""

from typing import Literal

Kind = Literal["csv", "jsonl", "parquet"]
"""Format of the output."""
BAD_ROW_OPTION = "--max-bad-share"
"""Option that sets how many bad rows are left out, for messages."""
