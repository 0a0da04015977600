"""Rows that violate a check: the worst ones for the report, and all of them in ``reports/checks/rows/CHECK.parquet``.

The files are for people and for ``tuneline data drop``. Great Expectations says which rows violate an expectation; this module reads what
is shown of them.
"""

import html
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from stages.validate.checks import Check, Table
from stages.validate.columns import Rows, joined
from stages.validate.near_duplicates import NUMBERED_THROUGH
from stages.validate.raw import RawSplit
from tuneline.core.tables import ROW_GROUP, failing_rows_schema, write_batches
from tuneline.core.terminal import phase
from tuneline.reports.checks import Violation

MAX_ROWS = 5
"""Violating rows in the report, for each expectation."""
MAX_CHARACTERS = 120
"""Characters of an excerpt."""
UNPRINTABLE = re.compile(r"[^\x20-\x7e\xa0-\uffff\U00010000-\U0010ffff]|[\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff]")
LIMITS = {"at least": "min_value", "at most": "max_value"}
README = "All rows that violate a data check, one file per check. A check without such rows has no file.\n"
"""Keeps the folder, a dependency of the stage ``evaluate``, where no row violates a check: DVC restores no empty folder."""


@dataclass(frozen=True)
class Violations:
    """Rows of a table, ascending, that violate an expectation; of a measurement, rows of the tokenized split that are listed with it."""

    check: Check
    table: Table
    arguments: Mapping[str, Any]
    rows: Rows

    @property
    def shown(self) -> Sequence[str]:
        """Columns that show why a row violates the check."""
        if self.check.shows is not None:
            return self.check.shows
        return [self.arguments[key] for key in ("column", "column_A", "column_B") if key in self.arguments]

    def of_split(self, raw: Mapping[str, RawSplit]) -> bool:
        """Return True if the rows are those of a split that can be read."""
        return self.table.kind in ("raw", "tokenized") and self.table.split in raw

    def worst(self, raw: Mapping[str, RawSplit], text_columns: Sequence[str]) -> Iterator[Violation]:
        """Yield the rows that violate the check most, at most ``MAX_ROWS``."""
        rows = np.sort(self.rows[np.argsort(-self.excess(), kind="stable")[:MAX_ROWS]])
        part = Violations(self.check, self.table, self.arguments, rows)
        others, values = part.other_rows(raw), self.table.columns.take(self.shown, rows)
        for place in np.argsort(-part.excess(), kind="stable"):
            row, like = int(rows[place]), None
            if others is not None:
                split, other = str(others[0][place]), int(others[1][place])
                like = f"{split}, row {other}: " + " | ".join(_excerpts(raw[split], other, text_columns).values())
            texts = _excerpts(raw[self.table.split], row, text_columns) if self.of_split(raw) else {}
            shown = {name: _json_value(values[name].iloc[place]) for name in self.shown}
            yield Violation(number=row, values=shown, texts=texts, like=like)

    def excess(self) -> NDArray[np.float64]:
        """Return by how much each row violates the check, of shape ``(rows,)``: the largest is the worst."""
        if ranked := "similarity" if "similarity" in self.shown else self.check.ranks:
            return self.table.columns.take([ranked], self.rows)[ranked].to_numpy(np.float64)
        low, high = (self.arguments.get(limit) for limit in LIMITS.values())
        if low is None and high is None:
            return np.zeros(len(self.rows))
        column = self.arguments["column"]
        values = self.table.columns.take([column], self.rows)[column].to_numpy().astype(np.float64)
        excess: NDArray[np.float64] = np.abs(values - np.clip(values, low, high))
        return excess

    def other_rows(self, raw: Mapping[str, RawSplit]) -> tuple[NDArray[np.str_], Rows] | None:
        """Return the rows that the rows repeat: their splits and their numbers, each of shape ``(rows,)``; ``None`` for other checks."""
        column = self.arguments.get("column")
        if self.check.relation is None or column is None:
            return None
        others = self.table.columns.take([column], self.rows)[column].to_numpy().astype(np.int64)
        if column not in NUMBERED_THROUGH:
            return np.full(len(others), self.table.split), others
        stops = np.cumsum([split.rows for split in raw.values()])
        split = np.searchsorted(stops, others, side="right")
        return np.array(list(raw))[split], others - np.append(0, stops)[split]

    def described(self, raw: Mapping[str, RawSplit]) -> dict[str, pa.Array]:
        """Return the columns ``reason`` and, for a check of repeated rows, ``other_split`` and ``other_row``, each of shape ``(rows,)``."""
        values, others = self.table.columns.take(self.shown, self.rows), self.other_rows(raw)
        if others is not None:
            splits, other = pa.array(others[0], pa.string()), pa.array(others[1])
            parts = [pa.scalar(self.check.relation), splits, pa.scalar("row"), other.cast(pa.string())]
            if "similarity" in self.shown:
                parts += [pa.scalar("with similarity"), pa.array(np.round(values["similarity"].to_numpy(), 3)).cast(pa.string())]
            return {"reason": pc.binary_join_element_wise(*parts, " "), "other_split": splits, "other_row": other}
        named = ((pa.scalar(name.replace("_", " ")), pa.array(values[name].to_numpy()).cast(pa.string())) for name in self.shown)
        limits = [f"{word} {self.arguments[key]:g}" for word, key in LIMITS.items() if self.arguments.get(key) is not None]
        is_limited = limits and (self.check.ranks or self.arguments["column"] in self.shown)
        required = [pa.scalar(f"({', '.join(limits)})")] if is_limited else []
        return {"reason": pc.binary_join_element_wise(*chain.from_iterable(named), *required, " ")}


def _excerpts(split: RawSplit, row: int, text_columns: Sequence[str]) -> dict[str, str]:
    """Return excerpts of a row's texts, by column; none for a row that the split does not have."""
    rows = split.source.take(np.array([row]), text_columns).to_pylist()
    return {name: excerpt(text) for name, text in rows[0].items()} if rows else {}


def excerpt(text: str | None) -> str:
    """Return the start of a text, printable."""
    if text is None:
        return "(missing)"
    return printable(text if len(text) <= MAX_CHARACTERS else text[:MAX_CHARACTERS] + "…")


def printable(text: str) -> str:
    """Return a text on one line, with invisible characters and changes of writing direction escaped."""
    return UNPRINTABLE.sub(lambda match: f"\\u{ord(match[0]):04x}", text)


def _json_value(value: Any) -> Any:
    """Return a value that strict JSON can hold: Python numbers, NaN and infinity as strings, and texts without HTML escapes."""
    if isinstance(value, str):
        return printable(html.unescape(value))
    plain = value.item() if isinstance(value, np.generic) else value
    return str(plain) if isinstance(plain, float) and not np.isfinite(plain) else plain


def write_row_files(folder: Path, found: Sequence[Violations], raw: Mapping[str, RawSplit], text_columns: Sequence[str]) -> None:
    """Write the violating rows of each check, also of those that pass within their limit, to a new folder; no file if there are none."""
    folder.mkdir()
    (folder / "README.md").write_text(README, encoding="utf-8")
    grouped: dict[str, dict[str, list[Violations]]] = {}
    for one in found:
        if one.of_split(raw):
            grouped.setdefault(one.check.key, {}).setdefault(one.table.split, []).append(one)
    for check, splits in grouped.items():
        phase(f"rows of {check}")
        batches = (batch for name, split in raw.items() if name in splits for batch in _batches(splits[name], raw, split, text_columns))
        if first := next(batches, None):
            groups = joined(chain([first], batches), ROW_GROUP)
            write_batches(folder / f"{check}.parquet", first.schema, (group.combine_chunks().to_batches()[0] for group in groups))


def _batches(
    found: Sequence[Violations], raw: Mapping[str, RawSplit], split: RawSplit, text_columns: Sequence[str]
) -> Iterator[pa.RecordBatch]:
    """Yield the rows of a split that violate the expectations of a check, with their texts. Rows that the raw split lacks are left out."""
    every = np.unique(np.concatenate([one.rows for one in found]))
    every = every[every < split.rows]
    for start in range(0, len(every), ROW_GROUP):
        rows = every[start : start + ROW_GROUP]
        reasons = [_reasons(one, rows, raw) for one in found]
        columns = {name: [part.column(name).combine_chunks() for part in reasons] for name in reasons[0].column_names}
        reason = pc.binary_join_element_wise(*columns.pop("reason"), "; ", null_handling="skip")
        texts = split.source.take(rows, text_columns)
        yield pa.record_batch(
            [
                pa.repeat(split.source.split, len(rows)),
                pa.array(rows),
                *(pa.concat_arrays(texts[name].chunks) for name in text_columns),
                reason,
                *(pc.coalesce(*values) for values in columns.values()),
            ],
            schema=failing_rows_schema(text_columns, "other_row" in columns),
        )


def _reasons(found: Violations, rows: Rows, raw: Mapping[str, RawSplit]) -> pa.Table:
    """Return the description of rows, null for those that do not violate the expectation."""
    inside = found.rows[np.isin(found.rows, rows)]
    described = Violations(found.check, found.table, found.arguments, inside).described(raw)
    places = pc.index_in(pa.array(rows), pa.array(inside))
    return pa.table({name: values.take(places) for name, values in described.items()})
