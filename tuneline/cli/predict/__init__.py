"""``tuneline predict``: the exported model on files of any size. Imports no torch, which would take seconds to start."""

from typing import Literal

Kind = Literal["csv", "tsv", "jsonl", "parquet"]
"""Format of an input or output."""
BadRows = Literal["stop", "skip"]
"""What to do about a row that cannot be predicted."""
