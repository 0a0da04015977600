"""The most common words of train: ``reports/checks/words.json``, for ``tuneline data history``."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import ClassVar

from tuneline.files import replace_file
from tuneline.records.record import Record


class WordCounts(Record):
    """How often words occur in train. They are text of the data, so unlike the profile they are only in DVC, not in git."""

    written_by: ClassVar[str] = "validate"

    total: int
    """Occurrences of all words."""
    different: int
    """Number of different words."""
    counts: Mapping[str, int]
    """Occurrences of the most common words, the most common first."""

    def write(self, path: Path) -> None:
        """Write the file in one line: indented, most of it would be line breaks."""
        with replace_file(path) as partial:
            partial.write_text(json.dumps(self.model_dump(mode="json"), ensure_ascii=False) + "\n", encoding="utf-8")
