"""Metrics and timing of a stage: ``metrics/STAGE.json``, which ``dvc metrics`` compares, and ``reports/timing/STAGE.json``."""

from collections.abc import Mapping
from pathlib import Path
from typing import Self

from tuneline.records.record import Number, Record


class Metrics(Record):
    """A flat object of finite numbers with 6 digits after the decimal point, by name. Names depend on task, splits and parameters."""

    __pydantic_extra__: dict[str, Number]

    @classmethod
    def of(cls, values: Mapping[str, float]) -> Self:
        """Return the metrics of a stage, rounded.

        Raises:
            ValueError: A metric is NaN or infinite. The message names it.
        """
        return cls.model_validate({name: value if isinstance(value, int) else float(value) for name, value in values.items()})

    @classmethod
    def read_values(cls, path: Path) -> Mapping[str, float]:
        """Return the metrics in a file, for a page that shows what there is; empty if it is missing or invalid."""
        metrics = cls.read_if_valid(path)
        return metrics.values if metrics else {}

    @classmethod
    def _hint(cls, source: Path | str) -> str:
        return f"Write it again: `dvc repro -f {Path(source).stem}`."

    @property
    def values(self) -> Mapping[str, float]:
        """All metrics by name."""
        return self.__pydantic_extra__
