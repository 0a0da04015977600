"""The table of all data checks.

It says what each expects of a table, how its limit and its result read, and what to do about a violation. To
add a check: an entry here, a field of the same name in ``tuneline/params/validate.py``, which ``tuneline
upgrade`` then adds to ``params.yaml``, a case in ``tests/stages/validate/test_checks.py``, and a row in
``docs/data-checks.md``. A check compares columns of a table with limits; ``tables`` derives both.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from great_expectations.expectations.core.expect_column_distinct_values_to_contain_set import (
    ExpectColumnDistinctValuesToContainSet,
)
from great_expectations.expectations.core.expect_column_pair_values_to_be_equal import (
    ExpectColumnPairValuesToBeEqual,
)
from great_expectations.expectations.core.expect_column_values_to_be_between import (
    ExpectColumnValuesToBeBetween,
)
from great_expectations.expectations.core.expect_column_values_to_be_in_set import ExpectColumnValuesToBeInSet
from great_expectations.expectations.core.expect_table_row_count_to_be_between import (
    ExpectTableRowCountToBeBetween,
)
from great_expectations.expectations.core.expect_table_row_count_to_equal import ExpectTableRowCountToEqual
from great_expectations.expectations.expectation import Expectation
from great_expectations.expectations.metadata_types import FailureSeverity

from stages.validate.columns import StoredColumns
from tuneline.analysis.near_duplicates import NO_ROW
from tuneline.core.tables import LABELS
from tuneline.params.validate import Rule, ValidateParams

SEVERITIES = {"error": FailureSeverity.CRITICAL, "warning": FailureSeverity.WARNING}
TableKind = Literal["columns", "raw", "tokenized", "between"]
"""``columns`` has a row for each column of a split, ``raw`` and ``tokenized`` the rows of the split.

``between`` has one row: the measurements of the split.
"""


@dataclass(frozen=True)
class Table:
    """Scalar columns of one split, and what its checks need beside them.

    Attributes:
        limits: Limits that depend on the data, by the name under which checks refer to them.
        notes: What a check found beside its measurement, as plain text, by key of the check. Notes are shown
            even if it passes.
    """

    kind: TableKind
    split: str
    columns: StoredColumns
    limits: Mapping[str, Any] = field(default_factory=dict)
    notes: Mapping[str, Sequence[str]] = field(default_factory=dict)

    @property
    def name(self) -> str:
        """Name of the suite, for example ``tokenized-train``."""
        return f"{self.kind}-{self.split}"


@dataclass(frozen=True)
class Requirement:
    """One expectation of a check.

    ``arguments`` returns its arguments for the parameters of the check and a table; ``None`` if it does not
    apply to the table. ``allowed`` returns the limit in words, for the parameters of the check and the
    arguments, ``found`` what was found. ``table`` is the kind of its table, if it is not the check's.
    """

    expectation: type[Expectation]
    arguments: Callable[[Any, Table], Mapping[str, Any] | None]
    allowed: Callable[[Any, Mapping[str, Any]], str]
    found: Callable[["CheckOutcome"], str]
    table: TableKind | None = None


def percent(fraction: float) -> str:
    """Return a fraction in percent, with three digits."""
    return f"{100 * fraction:.3g} %"


def format_observed(value: float) -> str:
    """Return an integer as text, or a number with four digits."""
    if isinstance(value, int):
        return f"{value:,}"
    return f"{value:.4g}"


def _of_rows(
    expectation: type[Expectation],
    column: str,
    arguments: Mapping[str, Any],
    optional: bool,
    one_fault: int = 1,
) -> Requirement:
    """Require something of each row: of as many as the check's ``max`` leaves, or of all if it has none.

    A string in place of a limit is the name of one of the table's limits. A missing ``column`` is an error
    unless it is ``optional``. ``one_fault`` is as in ``tolerated_rows``.
    """

    def resolve(rule: Rule, table: Table) -> Mapping[str, Any] | None:
        if optional and column not in table.columns.names:
            return None
        resolved: dict[str, Any] = {}
        for key, value in arguments.items():
            if key.startswith("column") or not isinstance(value, str):
                resolved[key] = value
            elif value in table.limits:
                resolved[key] = table.limits[value]
            else:
                return None
        resolved["mostly"] = _valid_share(rule, table.columns.rows, one_fault)
        return resolved

    def describe_limit(rule: Any, _: Mapping[str, Any]) -> str:
        if not hasattr(rule, "max"):
            return "no differences"
        limit = f"at most {percent(rule.max)}"
        if rule.max > 0:
            rows = "1 row" if one_fault == 1 else f"{one_fault} rows"
            limit += f", or {rows}"
        return limit

    return Requirement(expectation, resolve, describe_limit, _failing_rows)


def tolerated_rows(limit: float, rows: int, one_fault: int = 1) -> float:
    """Return how many rows of a split may violate a check; ``limit`` is its ``max``.

    A check that tolerates a fraction tolerates one fault in any split: of 62 rows, a single one is already
    1.6 %. A limit of 0 tolerates none.

    Args:
        limit: Largest allowed fraction of violating rows.
        rows: Rows of the split.
        one_fault: Rows that a single fault makes: two for labels that contradict each other.
    """
    if limit == 0:
        return 0
    return max(limit * rows, one_fault)


def _valid_share(rule: Rule, rows: int, one_fault: int) -> float:
    """Return the share of the rows of a split that must satisfy a rule, from its limit ``max``."""
    limit = getattr(rule, "max", 0.0)
    tolerated = tolerated_rows(limit, rows, one_fault)
    if tolerated > limit * rows:
        return max(rows - tolerated, 0) / rows
    # rounded: 1 - 0.9 is 0.09999999999999998
    return round(1.0 - limit, 12)


def _failing_rows(outcome: "CheckOutcome") -> str:
    """Return how many rows violate an expectation, and their fraction."""
    fraction = (outcome.failing or 0) / max(outcome.rows or 0, 1)
    return f"{outcome.failing:,} of {outcome.rows:,} rows ({percent(fraction)})"


def between(
    column: str, low: float | str | None = None, high: float | str | None = None, *, optional: bool = False
) -> Requirement:
    """Require values from ``low`` to ``high``."""
    return _of_rows(
        ExpectColumnValuesToBeBetween,
        column,
        {"column": column, "min_value": low, "max_value": high},
        optional,
    )


def one_of(
    column: str, values: Sequence[float] | str, *, optional: bool = False, one_fault: int = 1
) -> Requirement:
    """Require values from a set; ``one_fault`` is as in ``tolerated_rows``."""
    arguments = {"column": column, "value_set": values}
    return _of_rows(ExpectColumnValuesToBeInSet, column, arguments, optional, one_fault)


def equal(left: str, right: str, *, optional: bool = False) -> Requirement:
    """Require that two columns are equal; ``optional`` is about ``right``."""
    return _of_rows(ExpectColumnPairValuesToBeEqual, right, {"column_A": left, "column_B": right}, optional)


def measured(
    column: str,
    *,
    least: str | None = None,
    most: str | None = None,
    allowed: Callable[[Any], str] | None = None,
    found: Callable[[Mapping[str, float]], str] | None = None,
) -> Requirement:
    """Require that a measurement, if there is one, is within a limit, given as a name of a parameter.

    ``least`` is shown as a number and ``most`` in percent, unless ``allowed``, from the parameters, or
    ``found``, from all measurements of the split, say it in other words.
    """
    format_value: Callable[[float], str]
    if least is not None:
        limit = least
        argument = "min_value"
        word = "least"
        format_value = format_observed
    else:
        limit = str(most)
        argument = "max_value"
        word = "most"
        format_value = percent

    def arguments(rule: Rule, table: Table) -> Mapping[str, Any] | None:
        if column not in table.columns.names:
            return None
        return {"column": column, argument: getattr(rule, limit)}

    def describe_limit(rule: Any, _: Mapping[str, Any]) -> str:
        if allowed is not None:
            return allowed(rule)
        return f"at {word} {format_value(getattr(rule, limit))}"

    def describe_value(outcome: CheckOutcome) -> str:
        if found is not None:
            return found(outcome.measured)
        return format_value(outcome.measured[column])

    return Requirement(ExpectColumnValuesToBeBetween, arguments, describe_limit, describe_value)


def drift(check: str) -> tuple[Requirement, Requirement]:
    """Require that distances from a reference are small or not significant.

    The column ``significant_NAME`` is 0 where it is not.
    """

    def limited(name: str, limit: str, title: str) -> Requirement:
        def describe_limit(rule: Any) -> str:
            largest = format_observed(getattr(rule, limit))
            return f"at most {largest}, or not significant (p > {rule.significance:g})"

        def describe_distance(values: Mapping[str, float]) -> str:
            return f"{title} {format_observed(values[name])}"

        return measured(f"significant_{name}", most=limit, allowed=describe_limit, found=describe_distance)

    return (
        limited(check, "max_psi", "population stability index"),
        limited(f"{check}_ks", "max_ks", "Kolmogorov-Smirnov distance"),
    )


def _auc(values: Mapping[str, float]) -> str:
    return (
        f"area under the ROC curve {values['learnable_labels']:.3f} (95 % interval {values['auc_low']:.3f} to"
        f" {values['auc_high']:.3f})"
    )


def _disagreement(values: Mapping[str, float]) -> str:
    interval = f"{percent(values['disagreement_low'])} to {percent(values['disagreement_high'])}"
    return (
        f"{percent(values['disagreement'])} of the surest rows have another label (95 % interval {interval})"
    )


def _inseparable(values: Mapping[str, float]) -> str:
    return f"{percent(values['inseparable_labels'])} of the rows with either of two labels have both"


@dataclass(frozen=True)
class Check:
    """One data check.

    Attributes:
        key: Name of the check, and of its parameters under ``validate:``.
        metric: Name of its measurement in ``metrics/validate.json``, after the split; ``None`` if it is not a
            metric. It is the fraction of violating rows, the observed value of an expectation about the whole
            table, or the measurement with the key of the check.
        shows: Columns that show why a row violates it; ``None`` for the columns of the expectation.
        relation: What a violating row does to the other row that its column names, in words.
        ranks: A column of the tokenized split. The rows where it is not 0 are listed with the measurement of
            the check.
        for_sets: True if it is about several labels of a row, and no check for data with one label.
    """

    key: str
    table: TableKind
    requires: tuple[Requirement, ...]
    title: str
    hint: str
    metric: str | None = None
    shows: tuple[str, ...] | None = None
    relation: str | None = None
    ranks: str | None = None
    for_sets: bool = False


@dataclass(frozen=True)
class CheckOutcome:
    """What Great Expectations found on a table.

    Attributes:
        crashed: Message of an exception raised while the expectation was evaluated; ``None`` without one.
        rows: Number of checked rows; ``None`` for an expectation of a whole column or table.
        failing: Number of violating rows; ``None`` likewise.
        missing: Required values that the column does not have.
    """

    check: Check
    requirement: Requirement
    table: Table
    passed: bool
    crashed: str | None
    type: str
    arguments: Mapping[str, Any]
    rows: int | None
    failing: int | None
    observed: Any
    missing: Sequence[Any]

    @property
    def measured(self) -> Mapping[str, float]:
        """The values of a table of measurements, by column."""
        (frame,) = self.table.columns.frames(sorted(self.table.columns.names))
        return {str(name): float(value) for name, value in frame.iloc[0].items()}

    @property
    def measurement(self) -> float:
        """What is measured, as in ``Check.metric``."""
        if self.table.kind == "between":
            return float(self.measured[self.check.key])
        if self.rows is not None:
            return (self.failing or 0) / max(self.rows, 1)
        observed: float = self.observed  # a number of rows stays an integer
        return observed


def expectations(table: Table, params: ValidateParams) -> Iterator[Expectation]:
    """Yield the expectations of a table.

    Their ``meta`` has the key of the check and the position of the requirement in it.
    """
    for check in CHECK_TABLE.values():
        rule: Rule = getattr(params, check.key)
        for position, requirement in enumerate(check.requires):
            if (requirement.table or check.table) != table.kind:
                continue
            arguments = requirement.arguments(rule, table)
            if arguments is not None:
                meta = {"check": check.key, "requirement": position}
                yield requirement.expectation(severity=SEVERITIES[rule.severity], meta=meta, **arguments)


# What to do, where several checks say the same
_FIX_SOURCE = "Correct these rows in the source and run `dvc repro`"
_TOKENIZE_AGAIN = (
    "The tokenized data does not come from this raw data and tokenizer: run `dvc repro -f tokenize`."
)

# Requirements of a whole table or column
_ENOUGH_ROWS = Requirement(
    ExpectTableRowCountToBeBetween,
    arguments=lambda rule, _: {"min_value": rule.min},
    allowed=lambda rule, _: f"at least {format_observed(rule.min)}",
    found=lambda outcome: format_observed(outcome.observed),
)
_ROWS_OF_RAW = Requirement(
    ExpectTableRowCountToEqual,
    arguments=lambda _, table: {"value": table.limits["raw_rows"]},
    allowed=lambda _, arguments: format_observed(arguments["value"]),
    found=lambda outcome: format_observed(outcome.observed),
)


def _every_class(_: Any, table: Table) -> Mapping[str, Any] | None:
    if "every_class" not in table.limits:
        return None
    return {"column": LABELS, "value_set": table.limits["every_class"]}


def _missing_classes(outcome: CheckOutcome) -> str:
    if not outcome.missing:
        return "complete"
    return f"no row of class {', '.join(map(str, outcome.missing))}"


_EVERY_CLASS = Requirement(
    ExpectColumnDistinctValuesToContainSet,
    arguments=_every_class,
    allowed=lambda *_: "no differences",
    found=_missing_classes,
)


def _absent_labels(outcome: CheckOutcome) -> str:
    count = int(outcome.measured["absent_labels"])
    if not count:
        return "complete"
    return "1 label without a row" if count == 1 else f"{count:,} labels without a row"


_EVERY_LABEL = Requirement(
    ExpectColumnValuesToBeBetween,
    arguments=lambda _, table: (
        {"column": "absent_labels", "max_value": 0} if "absent_labels" in table.columns.names else None
    ),
    allowed=lambda *_: "no differences",
    found=_absent_labels,
    table="between",
)
"""Where a row has several labels: a column with one value for each row does not have all of them."""

_CHECKS = (
    Check(
        "columns",
        "columns",
        (equal("expected", "found"),),
        title="Every split has the columns it should have, with their types and label names.",
        hint=(
            "Files under data/raw or data/tokenized were not written by this version of the"
            " pipeline: run `dvc repro -f download`."
        ),
    ),
    Check(
        "rows",
        "raw",
        (_ENOUGH_ROWS,),
        metric="rows",
        title="A split has enough rows.",
        hint=(
            "Look at data.splits and data.max_rows: a slice may be too small. Metrics on fewer"
            " rows are not reliable."
        ),
    ),
    Check(
        "missing_values",
        "raw",
        (between("missing", high=0),),
        title="No text and no label is missing.",
        hint=f"{_FIX_SOURCE}, or remove them from it.",
    ),
    Check(
        "blank_text",
        "raw",
        (between("visible_characters", low=1),),
        metric="blank_rate",
        title="Every row has a visible character.",
        hint=f"{_FIX_SOURCE}. A row without text teaches only which label is frequent.",
    ),
    Check(
        "blank_in_pair",
        "raw",
        (between("visible_of_shorter", low=1, optional=True),),
        metric="blank_in_pair_rate",
        title="Few pairs have a text without a visible character.",
        hint=(
            "A message without a subject is no fault. Where the texts of a pair are compared, nothing can be"
            f" learned from it. {_FIX_SOURCE}."
        ),
    ),
    Check(
        "control_characters",
        "raw",
        (between("control_characters", high=0),),
        title="Texts contain no control characters.",
        hint=(
            "The texts include binary data or a broken export. Clean them in the source;"
            " tokenizers drop or garble such characters."
        ),
    ),
    Check(
        "broken_encoding",
        "raw",
        (between("broken_characters", high=0),),
        metric="broken_encoding_rate",
        title="Texts were decoded with the right encoding.",
        hint=(
            "These texts contain replacement characters, or UTF-8 read as Latin-1. Set"
            " data.files.encoding, or export the source again."
        ),
    ),
    Check(
        "mixed_encoding",
        "raw",
        (between("mixed_characters", high=0, optional=True),),
        title="No single text was decoded with another encoding than it was written in.",
        hint=("Correct these rows in the source, or export it again in utf-8."),
    ),
    Check(
        "length_outliers",
        "raw",
        (between("characters", "shortest", "longest"),),
        title="Texts have lengths similar to those of train.",
        hint=(
            "Look at the rows: merged records, pasted documents and truncated texts are far longer"
            " or shorter than the rest."
        ),
    ),
    Check(
        "label_set",
        "raw",
        (
            one_of(LABELS, "class_ids"),
            one_of("is_number", [1], optional=True),
            between(LABELS, low="smallest_code"),
        ),
        title="Every label is one of the label names (regression: a finite number).",
        hint=(
            "Look at data.label_column and data.label_names. A split without labels (-1) cannot be"
            " trained or reported on: choose another with evaluate.split or data.splits."
        ),
    ),
    Check(
        "absent_classes",
        "raw",
        (_EVERY_CLASS, _EVERY_LABEL),
        title="Every class has a row in train.",
        hint=(
            "A class without training rows cannot be learnt. Remove it from data.label_names, or"
            " split the data so that train has it."
        ),
    ),
    Check(
        "rare_classes",
        "raw",
        (between("rare_class", high=0, optional=True),),
        shows=("class",),
        title=(
            "Every class has rows enough to be learnt and measured: some in train, one in"
            " validation and in the reported split."
        ),
        hint=(
            "A class of one row is often a typo or a header line: correct it. Otherwise collect"
            " more rows of it, join it with another class, or divide the data with"
            " data.split.stratify."
        ),
    ),
    Check(
        "class_names",
        "raw",
        (between("name_faults", high=0, optional=True),),
        shows=("class",),
        title=(
            "The names of the classes differ visibly, and none looks like a header, a missing"
            " value or a text."
        ),
        hint=(
            "Correct the labels of these rows in the source. A name that is as it should be can be"
            " listed in data.label_names."
        ),
    ),
    Check(
        "class_balance",
        "between",
        (measured("class_balance", most="max"),),
        metric="imbalance",
        title="No label makes up almost all of a split.",
        hint=(
            "A model may learn to predict nothing else. Report a metric that shows it (macro F1),"
            " collect more rows of the rare classes, or raise validate.class_balance.max if the"
            " real distribution is like this."
        ),
    ),
    Check(
        "inseparable_labels",
        "between",
        (measured("inseparable_labels", most="max", found=_inseparable),),
        metric="inseparable_labels",
        title="No two labels occur almost always together.",
        hint=(
            "Find out whether two names mean the same: then join them in the source. If a model shall tell"
            " them apart, collect rows that have only one of them."
        ),
        for_sets=True,
    ),
    Check(
        "conflicting_labels",
        "raw",
        (one_of("conflict_with", [NO_ROW], optional=True, one_fault=2),),
        metric="conflict_rate",
        relation="has another label than",
        title="The same text has the same label.",
        hint=(
            "Decide between the labels and correct the source: no model can predict both, so these"
            " rows limit the reachable accuracy."
        ),
    ),
    Check(
        "duplicates",
        "raw",
        (one_of("duplicate_of", [NO_ROW]),),
        metric="duplicate_rate",
        shows=(),
        relation="repeats",
        title="A split does not repeat texts.",
        hint=(
            "Remove the copies from the source: they weigh more in training, and a metric counts"
            " them more than once."
        ),
    ),
    Check(
        "leakage",
        "raw",
        (one_of("leak_of", [NO_ROW], optional=True),),
        metric="leakage_rate",
        shows=(),
        relation="repeats",
        title="No text of validation or test is in an earlier split.",
        hint=(
            "Remove these rows from the earlier split, or split the source again by text. Trained"
            " rows measure memorization."
        ),
    ),
    Check(
        "near_duplicates",
        "raw",
        (one_of("near_duplicate_of", [NO_ROW]),),
        metric="near_duplicate_rate",
        shows=("near_duplicate_of", "similarity"),
        relation="resembles",
        title="Few rows resemble another row of their split, or a row of an earlier split.",
        hint=(
            "Look at the pairs. If they are the same record with small edits, split the source by"
            " record (customer, document), not by row: data.split.by. If they are filled from"
            " templates, the metric is about these templates only."
        ),
    ),
    Check(
        "learnable_labels",
        "between",
        requires=(
            measured("auc_high", least="min_auc", found=_auc),
            measured(
                "auc_drop",
                most="max_auc_drop",
                allowed=lambda rule: f"at most {format_observed(rule.max_auc_drop)} below train",
                found=lambda values: f"{_auc(values)}, at least {values['auc_drop']:.3f} below train",
            ),
            measured("disagreement_low", most="max_disagreement", found=_disagreement),
        ),
        metric="label_auc",
        title=(
            "A cheap linear model can predict labels from texts, and few labels contradict what it"
            " is surest of."
        ),
        hint=(
            "Look at rows and their labels: they may have been shuffled, joined by the wrong key,"
            " or given another meaning in one split; as many as disagree may be wrong. If they are"
            " right, words alone do not decide this task: raise"
            " validate.learnable_labels.max_disagreement, or lower min_auc."
        ),
    ),
    Check(
        "revealing_words",
        "between",
        (measured("revealing_words", most="max"),),
        metric="revealing_words",
        title="No single word or word pair predicts a label almost alone.",
        hint=(
            "Look for the label, a template or an id that the export wrote into the text, and"
            " remove it from the source: a model learns it instead of the task, and meets texts"
            " without it later. If real texts have this word, raise validate.revealing_words.max."
        ),
    ),
    Check(
        "revealing_length",
        "between",
        (measured("revealing_length", most="max"),),
        metric="revealing_length",
        title=("Neither the length of a row nor a number or date in it predicts a label almost alone."),
        hint=(
            "Look at how the classes were collected: from different sources, in different months,"
            " or cut at different lengths? A model learns that instead of the task. If real texts"
            " are like this, raise validate.revealing_length.max."
        ),
    ),
    Check(
        "row_count",
        "tokenized",
        (_ROWS_OF_RAW,),
        title="A tokenized split has as many rows as the raw one.",
        hint=_TOKENIZE_AGAIN,
    ),
    Check(
        "ids_in_vocabulary",
        "tokenized",
        (between("smallest_id", low=0), between("largest_id", high="largest_id")),
        title="Every id is in the tokenizer's vocabulary.",
        hint=_TOKENIZE_AGAIN,
    ),
    Check(
        "special_tokens",
        "tokenized",
        (
            one_of("first_id", "first_ids"),
            one_of("last_id", "last_ids"),
            between("special_tokens", "template_tokens", "template_tokens"),
        ),
        title="Special tokens are where this tokenizer puts them, and nowhere else.",
        hint=_TOKENIZE_AGAIN,
    ),
    Check(
        "max_length",
        "tokenized",
        (
            between("tokens", high="max_length"),
            between("longest_window", high="window_length", optional=True),
        ),
        title="No row is longer than tokenize.max_length.",
        hint=_TOKENIZE_AGAIN,
    ),
    Check(
        "column_lengths",
        "tokenized",
        (
            equal("tokens", "mask_tokens"),
            equal("tokens", "type_tokens", optional=True),
            equal("tokens", "window_tokens", optional=True),
        ),
        title="Ids, mask and type ids of a row have the same length.",
        hint=_TOKENIZE_AGAIN,
    ),
    Check(
        "attention_mask",
        "tokenized",
        (between("smallest_mask", low=1), between("largest_mask", high=1)),
        title="The attention mask is 1 at all positions: rows are not padded yet.",
        hint=_TOKENIZE_AGAIN,
    ),
    Check(
        "token_type_ids",
        "tokenized",
        (
            between("smallest_type", low=0, optional=True),
            between("largest_type", high="largest_type_id", optional=True),
            between("type_drops", high=0, optional=True),
        ),
        title="Type ids never decrease within a row, and are in the tokenizer's range.",
        hint=_TOKENIZE_AGAIN,
    ),
    Check(
        "token_labels",
        "tokenized",
        (equal(LABELS, "raw_labels", optional=True),),
        title="Tokenized rows have the labels of the raw rows.",
        hint=_TOKENIZE_AGAIN,
    ),
    Check(
        "empty_rows",
        "tokenized",
        (between("content_tokens", low=1),),
        title="Every row has a token that is not special.",
        hint=f"{_FIX_SOURCE}: the tokenizer drops everything in these texts.",
    ),
    Check(
        "unknown_rate",
        "between",
        (measured("unknown_rate", most="max"),),
        metric="unknown_rate",
        shows=("unknown_tokens", "content_tokens"),
        ranks="unknown_tokens",
        title="Few tokens are unknown to the vocabulary.",
        hint=(
            "The tokenizer was made for other texts. Choose a checkpoint for this language, or a"
            " multilingual checkpoint, such as distilbert/distilbert-base-multilingual-cased;"
            " without a checkpoint, raise tokenize.vocab_size."
        ),
    ),
    Check(
        "truncation_rate",
        "tokenized",
        (between("tokens", high="untruncated_length"),),
        metric="truncation_rate",
        title="Few rows fill tokenize.max_length.",
        hint=(
            "Longer texts are cut. The notes of train name what reads more of them, and its time. Or"
            " accept it by raising validate.truncation_rate.max."
        ),
    ),
    Check(
        "decoded_text",
        "tokenized",
        (one_of("decoded", [1], optional=True),),
        title="Decoded ids match the raw texts.",
        hint=(
            "Either the data was tokenized from other rows (run `dvc repro -f tokenize`), or this"
            " tokenizer drops characters: compare the excerpts with the decoded texts. If they are"
            " of another language, choose a multilingual checkpoint."
        ),
    ),
    Check(
        "label_drift",
        "between",
        drift("label_drift"),
        metric="label_psi",
        title="Labels are distributed as in train.",
        hint=(
            "The split is not a random sample like train: shuffle before splitting, or consider"
            " the difference when reading the metrics."
        ),
    ),
    Check(
        "length_drift",
        "between",
        drift("length_drift"),
        metric="length_psi",
        title="Lengths of texts are distributed as in train.",
        hint=(
            "The split is not a random sample like train: shuffle before splitting, or look for"
            " texts of another kind."
        ),
    ),
    Check(
        "vocabulary_overlap",
        "between",
        (measured("vocabulary_overlap", least="min"),),
        metric="vocabulary_overlap",
        title="Most words of the split occur in train.",
        hint="The split has other topics or another language than train: look at its source.",
    ),
    Check(
        "promoted_rows",
        "between",
        (measured("promoted_rows", least="min"),),
        metric="promoted_rows",
        title="The split has not shrunk compared with the promoted model's data.",
        hint=(
            "Look for a source that was only fetched in part. If the change is intended, promote"
            " this data's profile."
        ),
    ),
    Check(
        "promoted_labels",
        "between",
        drift("promoted_labels"),
        metric="promoted_label_psi",
        title="Labels are distributed as in the promoted model's data.",
        hint=(
            "Find out what changed in the source. If the real distribution did, promote this"
            " data's profile with the new model."
        ),
    ),
    Check(
        "promoted_lengths",
        "between",
        drift("promoted_lengths"),
        metric="promoted_length_psi",
        title="Lengths of texts are distributed as in the promoted model's data.",
        hint=(
            "Find out what changed in the source. If the real distribution did, promote this"
            " data's profile with the new model."
        ),
    ),
    Check(
        "promoted_vocabulary",
        "between",
        (measured("promoted_vocabulary", least="min"),),
        metric="promoted_vocabulary",
        title="Texts use the words of the promoted model's data.",
        hint=("Find out what changed in the source: another language, another product, another export."),
    ),
)
CHECK_TABLE = {check.key: check for check in _CHECKS}
"""All checks by key, in the order of the report."""
