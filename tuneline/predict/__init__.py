"""Predictions for files of rows."""

from typing import Literal

Kind = Literal["csv", "tsv", "jsonl", "parquet"]
"""Format of the output."""
BAD_ROW_OPTIONS = "--bad-rows skip", "--max-bad-share"
"""Options that leave out bad rows and limit their share, for messages."""
