"""Runs the checks with Great Expectations, and keeps their results: entries, violating rows and metrics.

Great Expectations says which rows violate an expectation. The report shows some of them; all, with
their texts, are in ``reports/checks/rows/CHECK.parquet``, for people and for ``tuneline data drop``.
"""

import re
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import great_expectations as gx
import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
from great_expectations.core.batch_definition import BatchDefinition
from great_expectations.data_context.types.base import ProgressBarsConfig

from tuneline.checks.definitions import CHECK_TABLE, Check, Table, expectations, percent
from tuneline.checks.raw import RawSplit, split_of_rows
from tuneline.checks.results import CheckEntry, Checks, Profile, Status, Violation
from tuneline.checks.tables import DerivedData
from tuneline.core.params.evaluate import ValidateParams
from tuneline.core.paths import SPLITS
from tuneline.core.runtime.terminal import phase
from tuneline.core.stage.arrays import RowNumbers
from tuneline.core.stage.records import split_hash
from tuneline.core.stage.tables import ROW_GROUP, SplitReader, failing_rows_schema, rebatch, write_batches

MAX_ROWS = 5
"""Violating rows in the report, for each expectation."""
MAX_CHARACTERS = 120
"""Characters of an excerpt."""
# all but printable characters; then spaces without a width, separators of lines, and marks of direction
UNPRINTABLE = re.compile(
    r"[^\x20-\x7e\xa0-\uffff\U00010000-\U0010ffff]|[\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff]"
)
README = "All rows that violate a data check, one file per check. A check without such rows has no file.\n"
"""Keeps the folder, a dependency of the stage ``evaluate``, where no row violates a check.

DVC restores no empty folder.
"""
RESULT_FORMAT = {"result_format": "COMPLETE", "return_unexpected_index_query": False}
"""Format of a result that has the violating rows as numbers of the frame's index.

With ``unexpected_index_column_names``, Great Expectations would look up each row by itself: 100,000 rows,
three expectations that most of them violate, 19 s against 0.16 s (and 0.09 s without the rows).
"""
ROWS_AT_A_TIME = 250_000
"""Rows that Great Expectations gets at a time: it needs several times the memory of their columns."""


@dataclass(frozen=True)
class CheckOutcome:
    """What Great Expectations found on a table.

    Attributes:
        rows: Number of checked rows.
        failing: Numbers of the rows that violate the expectation, ascending.
        arguments: Arguments of the expectation.
    """

    check: Check
    table: Table
    type: str
    arguments: Mapping[str, Any]
    rows: int
    failing: RowNumbers

    @property
    def status(self) -> Status:
        """Result of the expectation."""
        valid = self.rows - len(self.failing)
        if not self.rows or valid / self.rows >= self.arguments["mostly"]:
            return "passed"
        return "failed"

    @property
    def measurement(self) -> float:
        """The fraction of violating rows, or what was measured, as in ``metrics/validate.json``."""
        if self.table.kind == "between":
            return float(self.table.columns[self.check.key][0])
        return len(self.failing) / max(self.rows, 1)

    @property
    def found(self) -> str:
        """The result in words."""
        column = self.arguments.get("column", "")
        if self.table.kind == "between":
            value = self.table.columns[column][0]
            number = f"{value:,}" if isinstance(value, np.integer) else f"{value:.4g}"
            return self.table.words.get(column, number)
        return f"{len(self.failing):,} of {self.rows:,} rows ({percent(self.measurement)})"


@dataclass(frozen=True)
class CheckResults:
    """Results of all checks: the content of ``checks.json``, and what belongs to it.

    There are violating rows of checks that pass within their limit, too.
    """

    record: Checks
    metrics: Mapping[str, float]
    outcomes: Sequence[CheckOutcome]
    profile: Profile

    @property
    def errors(self) -> list[CheckEntry]:
        """Results that end the stage."""
        return [entry for entry in self.record.checks if entry.stops]

    @property
    def warnings(self) -> list[CheckEntry]:
        """Failed checks that do not end the stage."""
        return [entry for entry in self.record.checks if entry.status != "passed" and not entry.stops]


def check_tables(data: DerivedData) -> CheckResults:
    """Run all checks on the derived tables."""
    whole = batch_definition()
    outcomes: list[CheckOutcome] = []
    for table in data.tables:
        outcomes += run_expectations(table, data.params.validate_, whole)
    # tables are checked by split, but the report is ordered by check
    order = list(dict.fromkeys([*CHECK_TABLE, *(check.key for table in data.tables for check in table.own)]))
    outcomes.sort(key=lambda outcome: order.index(outcome.check.key))

    entries = [_entry(outcome, data) for outcome in outcomes]
    metrics: dict[str, float] = {}
    for outcome in outcomes:
        if outcome.check.metric:
            metrics[f"{outcome.table.split}_{outcome.check.metric}"] = outcome.measurement
    checked = {outcome.check.key for outcome in outcomes}
    hashes = {}
    for split in SPLITS:
        hashes[split] = split_hash(SplitReader.open(data.folders.raw, split, "download").paths)
    record = Checks(
        passed=not any(entry.stops for entry in entries),
        not_run=[check for check in order if check not in checked],
        raw_sha256=hashes,
        checks=entries,
    )
    return CheckResults(record, metrics, outcomes, Profile.of(data.labels, data.profiles))


def batch_definition() -> BatchDefinition[Any]:
    """Return the definition of a batch of a whole frame.

    One serves all tables: each new one serializes the context.
    """
    context = gx.get_context(mode="ephemeral")
    context.variables.progress_bars = ProgressBarsConfig(globally=False, metric_calculations=False)
    asset = context.data_sources.add_pandas("splits").add_dataframe_asset("table")
    return asset.add_batch_definition_whole_dataframe("all")


def run_expectations(table: Table, params: ValidateParams, whole: BatchDefinition[Any]) -> list[CheckOutcome]:
    """Validate a table, ``ROWS_AT_A_TIME`` rows at a time, and return the outcome of each expectation.

    Raises:
        RuntimeError: An expectation raised an exception, which Great Expectations catches.
    """
    expected = list(expectations(table, params))
    if not expected:
        return []
    suite = gx.ExpectationSuite(f"{table.kind}-{table.split}", expectations=[one for _, one in expected])
    names = set()
    for _, expectation in expected:
        names.update(checked_columns(dict(expectation)))

    rows: Counter[str] = Counter()
    failing: dict[str, list[RowNumbers]] = defaultdict(list)
    phase(f"checks of {suite.name}")
    for start in range(0, max(table.rows, 1), ROWS_AT_A_TIME):
        stop = min(start + ROWS_AT_A_TIME, table.rows)
        columns = {name: table.columns[name][start:stop] for name in sorted(names)}
        frame = pd.DataFrame(columns, pd.RangeIndex(start, stop))
        batch = whole.get_batch({"dataframe": frame})
        for result in batch.validate(suite, result_format=RESULT_FORMAT).results:
            config: Any = result.expectation_config
            key = str(config.meta)
            message = exception_message(result.exception_info)
            if message is not None:
                raise RuntimeError(f"{suite.name}, {key}: {message}")
            rows[key] += result.result["element_count"] - result.result["missing_count"]
            failing[key].append(np.array(result.result["unexpected_index_list"], np.int64))

    outcomes = []
    for check, expectation in expected:
        key = str(expectation.meta)
        if key not in failing:
            raise ValueError(f"{suite.name}: no result for {key}; a violation would go unnoticed")
        configuration = expectation.configuration
        outcomes.append(
            CheckOutcome(
                check,
                table,
                configuration.type,
                {"mostly": 1, **configuration.kwargs},
                rows[key],
                np.concatenate(failing[key]),
            )
        )
    return outcomes


def exception_message(info: Any) -> str | None:
    """Return the message of the first exception; ``None`` without one.

    Great Expectations notes one exception, or one for each metric that the expectation depends on.
    """
    info = info or {}
    for note in (info, *info.values()):
        if isinstance(note, dict) and note.get("raised_exception"):
            return str(note["exception_message"])
    return None


def _entry(outcome: CheckOutcome, data: DerivedData) -> CheckEntry:
    """Return the entry of ``checks.json`` for an expectation on a table."""
    params = data.params.validate_
    check = outcome.check
    is_measured = outcome.table.kind == "between"
    failed = outcome.status != "passed"
    examples = []
    if outcome.status == "failed" and outcome.table.kind != "between":
        examples = examples_of(outcome, data)
    return CheckEntry(
        check=check.key,
        split=outcome.table.split,
        table=outcome.table.kind,
        severity="error" if params.severity_of(check.key) == "error" else "warning",
        status=outcome.status,
        title=check.title,
        found=outcome.found,
        allowed=check.allowed(params, outcome.arguments),
        rows=None if is_measured else outcome.rows,
        failing=None if is_measured else len(outcome.failing),
        expectation={"type": outcome.type, **outcome.arguments},
        examples=examples,
        notes=list(map(printable, outcome.table.notes.get(check.key, ()))),
        hint=check.hint if failed else None,
    )


def checked_columns(arguments: Mapping[str, Any]) -> list[str]:
    """Return the columns in the arguments of an expectation."""
    return [value for key, value in arguments.items() if key.startswith("column")]


def shown_columns(outcome: CheckOutcome) -> list[str]:
    """Return the columns that show why a row violates a check."""
    return list(outcome.check.shows) or checked_columns(outcome.arguments)


def examples_of(outcome: CheckOutcome, data: DerivedData) -> list[Violation]:
    """Return the first rows that violate a check."""
    text_columns = data.params.data.text_columns
    pairs = outcome.check.relation is not None
    schema = failing_rows_schema(text_columns, pairs)
    violations = []
    rows = outcome.failing[outcome.failing < data.raw[outcome.table.split].rows][:MAX_ROWS]
    for row in rows_of([outcome], rows, data.raw, schema, text_columns).to_pylist():
        texts = [row[name] for name in schema.names[2 : 2 + len(text_columns)]]
        like = None
        if pairs:
            other = data.raw[row["other_split"]].source.take(np.array([row["other_row"]]), text_columns)
            like = " | ".join(excerpt(text) for text in other.to_pylist()[0].values())
        excerpts = dict(zip(text_columns, map(excerpt, texts), strict=True))
        reason = printable(row["reason"])
        violations.append(Violation(number=row["row"], texts=excerpts, reason=reason, like=like))
    return violations


def excerpt(text: str | None) -> str:
    """Return the start of a text, printable."""
    if text is None:
        return "(missing)"
    if len(text) > MAX_CHARACTERS:
        text = text[:MAX_CHARACTERS] + "…"
    return printable(text)


def printable(text: str) -> str:
    """Return a text on one line, with invisible characters and changes of writing direction escaped."""
    return UNPRINTABLE.sub(lambda match: f"\\u{ord(match[0]):04x}", text)


def write_row_files(
    folder: Path, outcomes: Sequence[CheckOutcome], raw: Mapping[str, RawSplit], text_columns: Sequence[str]
) -> None:
    """Write the violating rows of each check, a file for each, to a new folder; no file without such rows.

    Checks that pass within their limit have violating rows, too.
    """
    folder.mkdir()
    (folder / "README.md").write_text(README, encoding="utf-8")
    by_check: dict[str, list[CheckOutcome]] = defaultdict(list)
    for outcome in outcomes:
        if outcome.table.kind != "between" and len(outcome.failing):
            by_check[outcome.check.key].append(outcome)
    for check, of_check in by_check.items():
        phase(f"rows of {check}")
        schema = failing_rows_schema(text_columns, pairs=of_check[0].check.relation is not None)
        batches = rebatch(_batches(of_check, raw, text_columns, schema), schema)
        write_batches(folder / f"{check}.parquet", schema, batches)


def _batches(
    outcomes: Sequence[CheckOutcome],
    raw: Mapping[str, RawSplit],
    text_columns: Sequence[str],
    schema: pa.Schema,
) -> Iterator[pa.RecordBatch]:
    """Yield the rows that violate a check, by split, then by row; one row can have several outcomes."""
    for name in raw:
        of_split = [outcome for outcome in outcomes if outcome.table.split == name]
        if not of_split:
            continue
        all_rows = np.unique(np.concatenate([outcome.failing for outcome in of_split]))
        all_rows = all_rows[all_rows < raw[name].rows]  # tokenized rows may be more
        for start in range(0, len(all_rows), ROW_GROUP):
            yield rows_of(of_split, all_rows[start : start + ROW_GROUP], raw, schema, text_columns)


def rows_of(
    outcomes: Sequence[CheckOutcome],
    rows: RowNumbers,
    raw: Mapping[str, RawSplit],
    schema: pa.Schema,
    text_columns: Sequence[str],
) -> pa.RecordBatch:
    """Return rows of a split with their texts, and the reason why they violate a check."""
    split = outcomes[0].table.split
    texts = raw[split].source.take(rows, text_columns)
    columns = [pa.repeat(split, len(rows)), pa.array(rows)]
    columns += [texts[column].combine_chunks() for column in text_columns]
    columns += _reasons(outcomes, rows, raw)
    return pa.record_batch(columns, schema=schema)


def _reasons(
    outcomes: Sequence[CheckOutcome], rows: RowNumbers, raw: Mapping[str, RawSplit]
) -> list[pa.Array]:
    """Return the column ``reason`` of rows and, for a check of repeated rows, the other split and row."""
    relation = outcomes[0].check.relation
    columns = outcomes[0].table.columns
    if relation is None:
        names = dict.fromkeys(name for outcome in outcomes for name in shown_columns(outcome))
        parts: list[Any] = []
        for name in names:
            parts += [pa.scalar(name.replace("_", " ")), pa.array(columns[name][rows]).cast(pa.string())]
        return [pc.binary_join_element_wise(*parts, " ")]

    # "repeats train row 12", or "resembles train row 12 with similarity 0.9"
    splits, numbers = split_of_rows(raw, columns[outcomes[0].arguments["column"]][rows].astype(np.int64))
    parts = [pa.scalar(relation), pa.array(splits), pa.scalar("row"), pa.array(numbers).cast(pa.string())]
    for name in outcomes[0].check.shows:
        rounded = pa.array(np.round(columns[name][rows], 3))
        parts += [pa.scalar(f"with {name}"), rounded.cast(pa.string())]
    return [pc.binary_join_element_wise(*parts, " "), pa.array(splits, pa.string()), pa.array(numbers)]
