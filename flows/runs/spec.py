"""What a run computes, recorded beside its checkout."""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Self

from tuneline.files import write_json


@dataclass(frozen=True)
class RunSpec:
    """What a run computes. Two runs of the same spec can resume from each other's checkpoints.

    Attributes:
        ref: Branch, tag or commit that was requested.
        commit: The commit it named when the run first started.
        overrides: Parameters, as after ``dvc exp run -S``.
    """

    ref: str
    commit: str
    overrides: tuple[str, ...] = ()

    @classmethod
    def read(cls, record: Path) -> Self:
        """Read a spec that ``write`` wrote."""
        return cls.of(json.loads(record.read_text(encoding="utf-8")))

    @classmethod
    def of(cls, values: Mapping[str, Any]) -> Self:
        """Return the spec that a JSON object contains."""
        return cls(values["ref"], values["commit"], tuple(values["overrides"]))

    def write(self, record: Path) -> None:
        """Write the spec as JSON."""
        write_json(record, asdict(self))

    def trains_same_model(self, other: "RunSpec") -> bool:
        """Return True if both train the same model, as far as the specs tell; the training compares its inputs itself."""
        return self.overrides == other.overrides and (self.ref == other.ref or self.commit == other.commit)
