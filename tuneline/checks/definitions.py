"""The table of all data checks.

It says what each expects of a table, and what to do about a violation. To add a check: an entry here, its
name in ``tuneline/core/params/evaluate.py``, a case in ``tests/tuneline/checks/test_definitions.py``, and a
row in ``docs/data-checks.md``. A check compares columns of a table with limits; ``tables`` derives both.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
from great_expectations.expectations.core.expect_column_pair_values_to_be_equal import (
    ExpectColumnPairValuesToBeEqual,
)
from great_expectations.expectations.core.expect_column_values_to_be_between import (
    ExpectColumnValuesToBeBetween,
)
from great_expectations.expectations.core.expect_column_values_to_be_in_set import ExpectColumnValuesToBeInSet
from great_expectations.expectations.expectation import Expectation
from great_expectations.expectations.metadata_types import FailureSeverity
from numpy.typing import NDArray

from tuneline.checks.analysis.near_duplicates import NO_ROW
from tuneline.core.params.evaluate import ValidateParams
from tuneline.core.stage.tables import LABELS

Columns = dict[str, NDArray[Any]]
"""Scalar columns by name, of shape ``(rows,)``."""
SEVERITIES = {"error": FailureSeverity.CRITICAL, "warning": FailureSeverity.WARNING}
TableKind = Literal["raw", "tokenized", "own", "between"]
"""``raw``, ``tokenized`` and ``own``, of the checks of the user, have the rows of the split.

``between`` has one row: the measurements of the split.
"""


@dataclass(frozen=True)
class Table:
    """Scalar columns of one split, and what its checks need beside them.

    Attributes:
        limits: Limits that depend on the data or the parameters, by the name under which checks refer to
            them.
        notes: What a check found beside its measurement, as plain text, by key of the check. Notes are shown
            even if it passes.
        words: Measurements in words, by column; the others are numbers.
        own: Checks of the user, each of the column of its name.
    """

    kind: TableKind
    split: str
    columns: Columns
    limits: Mapping[str, Any] = field(default_factory=dict)
    notes: dict[str, list[str]] = field(default_factory=dict)
    words: dict[str, str] = field(default_factory=dict)
    own: Sequence["Check"] = ()

    @property
    def rows(self) -> int:
        """Number of rows."""
        return len(next(iter(self.columns.values())))

    def add(self, column: str, value: float, words: str | None = None) -> None:
        """Add a measurement of the split, in words where the number alone does not say it."""
        self.columns[column] = np.array([value])
        if words is not None:
            self.words[column] = words


@dataclass(frozen=True)
class Requirement:
    """What is required of a column: a range, a set of values, or the values of another column.

    A string in place of a limit is the name of one of the table's limits. It applies to tables that have the
    columns and the limits.
    """

    column: str
    low: float | str | None = None
    high: float | str | None = None
    values: Sequence[float] | str | None = None
    equals: str | None = None

    def expectation(self, table: Table, **options: Any) -> Expectation | None:
        """Return the expectation of Great Expectations; ``None`` if it does not apply to the table."""
        columns = {self.column, self.equals or self.column}
        limits: dict[str, Any] = {}
        for name, limit in (("min_value", self.low), ("max_value", self.high), ("value_set", self.values)):
            limits[name] = table.limits.get(limit) if isinstance(limit, str) else limit
        given = {name: limit for name, limit in limits.items() if limit is not None}
        if not columns <= table.columns.keys() or not (given or self.equals):
            return None
        if self.equals:
            return ExpectColumnPairValuesToBeEqual(column_A=self.column, column_B=self.equals, **options)
        if self.values is not None:
            return ExpectColumnValuesToBeInSet(column=self.column, **given, **options)
        return ExpectColumnValuesToBeBetween(column=self.column, **given, **options)


@dataclass(frozen=True)
class Check:
    """One data check.

    Attributes:
        key: Name of the check; the parameter of this name is the fraction of the rows that may violate it.
        metric: Name of its measurement in ``metrics/validate.json``, after the split; ``None`` if it is not a
            metric.
        shows: Columns that show why a row violates it; empty for the columns of the requirements.
        relation: What a violating row does to the other row that its column names, in words.
        one_fault: Rows that a single fault makes: two for labels that contradict each other.
    """

    key: str
    table: TableKind
    requires: tuple[Requirement, ...]
    title: str
    hint: str
    metric: str | None = None
    shows: tuple[str, ...] = ()
    relation: str | None = None
    one_fault: int = 1

    def tolerated(self, params: ValidateParams, rows: int) -> int:
        """Return how many rows of a split may violate the check.

        A check that tolerates a fraction tolerates one fault in any split: of 62 rows, a single one is
        already 1.6 %. A limit of 0 tolerates none.
        """
        limit = params.limit_of(self.key)
        if self.table == "between" or limit == 0:
            return 0
        return min(max(int(limit * rows + 1e-9), self.one_fault), rows)

    def allowed(self, params: ValidateParams, arguments: Mapping[str, Any]) -> str:
        """Return the limit in words, given the arguments of an expectation."""
        if self.table == "between":
            words = []
            for name, word in (("min_value", "at least"), ("max_value", "at most")):
                if name in arguments:
                    words.append(f"{word} {arguments[name]:.4g}")
            return " and ".join(words)
        limit = params.limit_of(self.key)
        if limit == 0:
            return "no row"
        fault = "1 row" if self.one_fault == 1 else f"{self.one_fault} rows"
        return f"at most {percent(limit)}, or {fault}"


def percent(fraction: float) -> str:
    """Return a fraction in percent, with three digits."""
    return f"{100 * fraction:.3g} %"


def expectations(table: Table, params: ValidateParams) -> Iterator[tuple[Check, Expectation]]:
    """Yield the expectations of a table with their checks.

    The ``meta`` of an expectation has the key of the check and the position of the requirement in it.
    """
    for check in (*CHECK_TABLE.values(), *table.own):
        if check.table != table.kind:
            continue
        severity = params.severity_of(check.key)
        rows = max(table.rows, 1)
        mostly = (rows - check.tolerated(params, rows)) / rows
        for position, requirement in enumerate(check.requires):
            meta = {"check": check.key, "requirement": position}
            expectation = requirement.expectation(
                table, severity=SEVERITIES[severity], mostly=mostly, meta=meta
            )
            if expectation is not None:
                yield check, expectation


# What to do, where several checks say the same
_FIX_SOURCE = "Correct these rows in the source and run `dvc repro`"
_TOKENIZE_AGAIN = (
    "The tokenized data does not come from this raw data and tokenizer: run `dvc repro -f tokenize`."
)
_OTHER_TOKENIZER = (
    "The tokenizer was made for other texts. Choose a checkpoint for this language, or a multilingual"
    " checkpoint, such as distilbert/distilbert-base-multilingual-cased; without a checkpoint, raise"
    " tokenize.vocab_size."
)
_NO_RANDOM_SAMPLE = (
    "The split is not a random sample like train: shuffle before splitting, or consider the difference when"
    " reading the metrics."
)
_SOURCE_CHANGED = (
    "Find out what changed in the source. If the real distribution did, promote this data's profile with the"
    " new model."
)

_CHECKS = (
    Check(
        "rows",
        "between",
        (Requirement("rows", low="min_rows"),),
        title="A split has enough rows.",
        hint=(
            "Look at data.splits and data.max_rows: a slice may be too small. Metrics on fewer rows are not"
            " reliable."
        ),
    ),
    Check(
        "blank_text",
        "raw",
        (Requirement("visible_characters", low=1),),
        title="Every row has a visible character.",
        hint=f"{_FIX_SOURCE}. A row without text teaches only which label is frequent.",
    ),
    Check(
        "control_characters",
        "raw",
        (Requirement("control_characters", high=0),),
        title="Texts contain no control characters.",
        hint=(
            "The texts include binary data or a broken export. Clean them in the source; tokenizers drop or"
            " garble such characters."
        ),
    ),
    Check(
        "broken_encoding",
        "raw",
        (Requirement("broken_characters", high=0),),
        title="Texts were decoded with the right encoding.",
        hint=(
            "These texts contain replacement characters, or UTF-8 read as Latin-1. Set data.files.encoding,"
            " or export the source again."
        ),
    ),
    Check(
        "length_outliers",
        "raw",
        (Requirement("characters", "shortest", "longest"),),
        title="Texts have lengths similar to those of train.",
        hint=(
            "Look at the rows: merged records, pasted documents and truncated texts are far longer or shorter"
            " than the rest."
        ),
    ),
    Check(
        "label_set",
        "raw",
        (Requirement("valid_label", low=1),),
        shows=(LABELS,),
        title="Every label is one of the label names (regression: a finite number).",
        hint=(
            "Look at data.label_column and data.label_names. A split without labels (-1) cannot be trained or"
            " reported on: choose another with evaluate.split or data.splits."
        ),
    ),
    Check(
        "absent_classes",
        "between",
        (Requirement("absent_classes", high=0),),
        title="Every class has a row in train.",
        hint=(
            "A class without training rows cannot be learnt. Remove it from data.label_names, or split the"
            " data so that train has it; a class that corrections emptied must be renamed in the source."
        ),
    ),
    Check(
        "rare_classes",
        "raw",
        (Requirement("rare_class", high=0),),
        shows=("class",),
        title=(
            "Every class has rows enough to be learnt and measured: some in train, one in validation and in"
            " the reported split."
        ),
        hint=(
            "A class of one row is often a typo or a header line: correct it. Otherwise collect more rows of"
            " it, join it with another class, or divide the data with data.split.stratify."
        ),
    ),
    Check(
        "class_names",
        "raw",
        (Requirement("name_faults", high=0),),
        shows=("class",),
        title=(
            "The names of the classes differ visibly, and none looks like a header, a missing value or a"
            " text."
        ),
        hint=(
            "Correct the labels of these rows in the source. A name that is as it should be can be listed in"
            " data.label_names."
        ),
    ),
    Check(
        "class_balance",
        "between",
        (Requirement("class_balance", high="class_balance"),),
        title="No label makes up almost all of a split.",
        hint=(
            "A model may learn to predict nothing else. Report a metric that shows it (macro F1), collect"
            " more rows of the rare classes, or raise validate.class_balance if the real distribution is like"
            " this."
        ),
    ),
    Check(
        "conflicting_labels",
        "raw",
        (Requirement("conflict_with", values=[NO_ROW]),),
        relation="has another label than",
        one_fault=2,
        title="The same text, in whatever case, has the same label.",
        hint=(
            "Decide between the labels and correct the source: no model can predict both labels of a text, so"
            " these rows limit the reachable accuracy. Here, texts that differ in case or white space alone"
            " count as one; a cased checkpoint reads them as two: if the case decides, raise"
            " validate.conflicting_labels."
        ),
    ),
    Check(
        "duplicates",
        "raw",
        (Requirement("duplicate_of", values=[NO_ROW]),),
        relation="repeats",
        title="A split does not repeat texts.",
        hint=(
            "Remove the copies from the source: they weigh more in training, and a metric counts them more"
            " than once."
        ),
    ),
    Check(
        "leakage",
        "raw",
        (Requirement("leak_of", values=[NO_ROW]),),
        metric="leakage_rate",
        relation="repeats",
        title="No text of validation or test is in an earlier split.",
        hint=(
            "Remove these rows from the earlier split, or split the source again by text. Trained rows"
            " measure memorization; by time (data.split.by_time), texts that come again are how the future"
            " is, and the report has the metric with and without them."
        ),
    ),
    Check(
        "near_duplicates",
        "raw",
        (Requirement("near_duplicate_of", values=[NO_ROW]),),
        metric="near_duplicate_rate",
        shows=("similarity",),
        relation="resembles",
        title="Few rows resemble another row of their split, or a row of an earlier split.",
        hint=(
            "Look at the pairs. If they are the same record with small edits, split the source by record"
            " (customer, document), not by row: data.split.by. If they are filled from templates, the metric"
            " is about these templates only."
        ),
    ),
    Check(
        "revealing_words",
        "between",
        (Requirement("revealing_words", high="revealing_words"),),
        title="No single word or word pair predicts a label almost alone.",
        hint=(
            "Look for the label, a template or an id that the export wrote into the text, and remove it from"
            " the source: a model learns it instead of the task, and meets texts without it later. If real"
            " texts have this word, raise validate.revealing_words."
        ),
    ),
    Check(
        "row_count",
        "between",
        (Requirement("lost_rows", high=0),),
        title="A tokenized split has as many rows as the raw one.",
        hint=_TOKENIZE_AGAIN,
    ),
    Check(
        "ids_in_vocabulary",
        "tokenized",
        (Requirement("smallest_id", low=0), Requirement("largest_id", high="largest_id")),
        title="Every id is in the tokenizer's vocabulary.",
        hint=_TOKENIZE_AGAIN,
    ),
    Check(
        "special_tokens",
        "tokenized",
        (
            Requirement("first_id", values="first_ids"),
            Requirement("last_id", values="last_ids"),
            Requirement("special_tokens", "template_tokens", "template_tokens"),
        ),
        title="Special tokens are where this tokenizer puts them, and nowhere else.",
        hint=_TOKENIZE_AGAIN,
    ),
    Check(
        "max_length",
        "tokenized",
        (Requirement("tokens", high="max_length"), Requirement("longest_window", high="window_length")),
        title="No row is longer than tokenize.max_length.",
        hint=_TOKENIZE_AGAIN,
    ),
    Check(
        "column_lengths",
        "tokenized",
        (
            Requirement("tokens", equals="mask_tokens"),
            Requirement("tokens", equals="type_tokens"),
            Requirement("tokens", equals="window_tokens"),
        ),
        title="Ids, mask and type ids of a row have the same length.",
        hint=_TOKENIZE_AGAIN,
    ),
    Check(
        "attention_mask",
        "tokenized",
        (Requirement("smallest_mask", low=1), Requirement("largest_mask", high=1)),
        title="The attention mask is 1 at all positions: rows are not padded yet.",
        hint=_TOKENIZE_AGAIN,
    ),
    Check(
        "token_type_ids",
        "tokenized",
        (
            Requirement("smallest_type", low=0),
            Requirement("largest_type", high="largest_type_id"),
            Requirement("type_drops", high=0),
        ),
        title="Type ids never decrease within a row, and are in the tokenizer's range.",
        hint=_TOKENIZE_AGAIN,
    ),
    Check(
        "token_labels",
        "tokenized",
        (Requirement(LABELS, equals="raw_labels"),),
        title="Tokenized rows have the labels of the raw rows.",
        hint=_TOKENIZE_AGAIN,
    ),
    Check(
        "empty_rows",
        "tokenized",
        (Requirement("content_tokens", low=1),),
        title="Every row has a token that is not special.",
        hint=f"{_FIX_SOURCE}: the tokenizer drops everything in these texts.",
    ),
    Check(
        "unknown_rate",
        "between",
        (Requirement("unknown_rate", high="unknown_rate"),),
        title="Few tokens are unknown to the vocabulary.",
        hint=_OTHER_TOKENIZER,
    ),
    Check(
        "word_pieces",
        "between",
        (Requirement("word_pieces", high="most_pieces"),),
        title="The tokenizer knows the words of the texts.",
        hint=f"More rows and corrected labels help little. {_OTHER_TOKENIZER}",
    ),
    Check(
        "truncation_rate",
        "tokenized",
        (Requirement("tokens", high="untruncated_length"),),
        title="Few rows fill tokenize.max_length.",
        hint=(
            "Longer texts are cut. Raise tokenize.max_length, or set tokenize.long_text to windows"
            " (docs/long-documents.md). Or accept it by raising validate.truncation_rate."
        ),
    ),
    Check(
        "label_drift",
        "between",
        (Requirement("label_drift", high="max_psi"),),
        title="Labels are distributed as in train.",
        hint=_NO_RANDOM_SAMPLE,
    ),
    Check(
        "length_drift",
        "between",
        (Requirement("length_drift", high="max_psi"),),
        title="Lengths of texts are distributed as in train.",
        hint=_NO_RANDOM_SAMPLE,
    ),
    Check(
        "vocabulary_overlap",
        "between",
        (Requirement("vocabulary_overlap", low="min_vocabulary"),),
        title="Most words of the split occur in train.",
        hint="The split has other topics or another language than train: look at its source.",
    ),
    Check(
        "promoted_rows",
        "between",
        (Requirement("promoted_rows", low="min_promoted_rows"),),
        title="The split has not shrunk compared with the promoted model's data.",
        hint=(
            "Look for a source that was only fetched in part. If the change is intended, promote this data's"
            " profile."
        ),
    ),
    Check(
        "promoted_labels",
        "between",
        (Requirement("promoted_labels", high="max_psi"),),
        metric="promoted_label_psi",
        title="Labels are distributed as in the promoted model's data.",
        hint=_SOURCE_CHANGED,
    ),
    Check(
        "promoted_lengths",
        "between",
        (Requirement("promoted_lengths", high="max_psi"),),
        title="Lengths of texts are distributed as in the promoted model's data.",
        hint=_SOURCE_CHANGED,
    ),
    Check(
        "promoted_vocabulary",
        "between",
        (Requirement("promoted_vocabulary", low="min_vocabulary"),),
        title="Texts use the words of the promoted model's data.",
        hint="Find out what changed in the source: another language, another product, another export.",
    ),
)
CHECK_TABLE = {check.key: check for check in _CHECKS}
"""All checks by key, in the order of the report."""
