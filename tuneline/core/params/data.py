"""Sections ``data`` and ``tokenize``: the data set, and how its text is tokenized."""

from typing import Annotated, Any, Literal, Self

from pydantic import Field, model_validator

from tuneline.core.params.section import Fraction, Positive, Rate, Section

TaskKind = Literal["classification", "regression", "multilabel"]
"""What a label is: a class, a number, or a set of names."""
LABELS_OF_COLUMNS = "labels"
"""What people call the labels of several columns."""


class SampleParams(Section):
    """``data.sample``: the built-in generator of support tickets."""

    rows: Annotated[int, Field(ge=100)] = 10_000
    """Number of tickets, divided 8 : 1 : 1 into train, validation and test."""
    mislabelled: Fraction = 0.03
    """Fraction of the tickets of each split that have a wrong label."""


Character = Annotated[str, Field(min_length=1, max_length=1)]


class FilesParams(Section):
    """``data.files``: format of the files under ``data/source/``."""

    delimiter: Annotated[str, Field(pattern=r'^[^"\r\n]$')] | None = None
    """Between the fields; ``null``: comma for .csv, tab for .tsv."""
    quoting: Literal["standard", "literal"] | None = None
    """``standard``: quoted fields; ``literal``: a quote is an ordinary character, as ``null`` for .tsv."""
    columns: list[str] | None = None
    """Column names of CSV and TSV files without a header. ``null``: the first line is the header."""
    quote: Character = '"'
    """The quote that encloses fields (``quoting: standard``). Inside of a field, it is doubled."""
    escape: Character | None = None
    """Character before a quote inside a field, such as the backslash of MySQL. ``null``: none."""
    encoding: str = "utf-8"
    """Encoding of CSV, TSV and JSONL files. A byte order mark is dropped."""

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        _refuse_twice("columns", self.columns or [])
        try:
            "".encode(self.encoding)
        except LookupError:
            raise ValueError(
                f"encoding: Python has no encoding {self.encoding!r}; utf-8, cp1252 and latin-1 are common"
            ) from None
        return self


def _refuse_twice(key: str, names: list[str]) -> None:
    for name in names:
        if names.count(name) > 1:
            raise ValueError(f"{key}: {name!r} is listed twice")


class Splits(Section):
    """``data.splits``: what each split is taken from."""

    train: str = "train"
    """Split of a hub data set, or file without its ending. With ``split``: the rows to divide."""
    validation: str = "validation"
    """The same for validation. Not read if ``split.validation`` is above 0."""
    test: str = "test"
    """The same for test. Not read if ``split.test`` is above 0."""


class SplitParams(Section):
    """``data.split``: divide the rows of ``data.splits.train`` (``tuneline/rows/splits/splitting.py``).

    Train keeps the rest.
    """

    validation: Fraction = 0.1
    """Fraction of the rows; 0: the split is read from ``data.splits.validation``."""
    test: Fraction = 0.1
    """Fraction of the rows; 0: the split is read from ``data.splits.test``."""
    by: str | None = None
    """Column of a customer or document: rows with the same value go to the same split.

    A row without a value is on its own.
    """
    by_time: str | None = None
    """Column of dates or times: the earliest rows are train, the latest are test.

    Every row needs a time. ``stratify`` is not used. docs/your-data.md has the formats.
    """
    stratify: bool = True
    """Give every split the same fraction of each class.

    ``false``: a row's split never changes, whatever rows are added.
    """

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        if self.validation + self.test >= 1:
            raise ValueError(
                f"test: {self.test} and validation: {self.validation} leave nothing for train; their sum must"
                " be below 1"
            )
        if self.by is not None and self.by_time is not None:
            raise ValueError(
                f"by_time: {self.by_time!r} contradicts by: {self.by!r}, whose rows can be of any time; set"
                " one of them to null"
            )
        return self

    @property
    def column(self) -> str | None:
        """The column that decides on the split of a row; ``None`` if its texts do."""
        return self.by or self.by_time


class LabelSetsParams(Section):
    """``data.label_sets``: how the source writes several labels of a text."""

    layout: Literal["separated", "lists", "columns"]
    """``separated``: the names in one cell, with ``separator`` between them. ``lists``: lists in JSONL and
    Parquet, or lists as text, ``['a', 'b']``. ``columns``: a column for each label, with 0 or 1 (also true
    and false, yes and no).
    """
    separator: Annotated[str, Field(min_length=1)] | None = None
    """separated: what is between two names, such as ``";"``. White space around the names is dropped.

    ``"><"``: names in brackets, ``<a><b>``.
    """
    columns: list[str] | None = None
    """columns: the columns, which are the names of the labels, in the order of their ids."""

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        if (self.layout == "separated") != (self.separator is not None):
            raise ValueError(
                "separator: layout 'separated' needs it, for example ';'; no other layout uses it"
            )
        if (self.layout == "columns") != bool(self.columns):
            raise ValueError(
                "columns: layout 'columns' needs the columns of the labels; no other layout uses it"
            )
        _refuse_twice("columns", self.columns or [])
        return self


class DataParams(Section):
    """Section ``data``: source, columns and task."""

    source: Literal["sample", "files", "hub"] = "sample"
    """``sample`` (built-in support tickets), ``files`` (yours) or ``hub`` (a data set of Hugging Face)."""
    path: str | None = None
    """hub: id of the data set; files: a folder under ``data/source/``. ``null``: ``data/source/`` itself."""
    name: str | None = None
    """hub: the configuration, for example ``mrpc``. ``null``: the data set has only one."""
    revision: str | None = None
    """hub: a commit, tag or branch. ``null``: main. ``data/raw/source.json`` records the commit."""
    splits: Splits
    """The split of the source that each split is."""
    split: SplitParams | None = None
    """Divide one split of the source. ``null``: the source has three splits."""
    text_columns: Annotated[list[str], Field(min_length=1, max_length=2)]
    """Column of the text, or two, which are a pair."""
    label_column: str
    """Column of the class, of the number, or of the set of labels (``label_sets``).

    ``label_sets: {layout: columns}``: what messages call the labels, which have no column; ``null``: labels.
    """
    label_names: list[str] | None = None
    """Class names in the order of their ids. ``null``: the order of the source if it has one, else sorted."""
    task: TaskKind = "classification"
    """``classification``, ``regression`` (of numbers), or ``multilabel`` (any number of labels per row)."""
    label_sets: LabelSetsParams | None = None
    """multilabel: how the source writes several labels of a text. docs/your-data.md has examples."""
    max_rows: Positive | None = None
    """Most rows of each split, sampled with ``seed``. ``null``: all rows."""
    shard_rows: Positive = 1_000_000
    """Most rows of one file in ``data/raw`` and ``data/tokenized``; a larger split is several shards.

    A shard is what a killed stage need not repeat, and what a worker of ``run.engine: ray`` does at a time.
    """
    max_bad_share: Rate = 0.0
    """Largest fraction of the rows of a file that may be bad: unreadable, or without text or label.

    Bad rows are left out, counted, and listed in ``reports/download/skipped.parquet``; a file with more is an
    error.
    """
    sample: SampleParams
    """Size and difficulty of the built-in sample."""
    files: FilesParams
    """Format of the files under ``data/source/``."""

    @model_validator(mode="before")
    @classmethod
    def _named_labels(cls, values: Any) -> Any:
        """Name the labels that are in columns of their own, if the user did not."""
        if isinstance(values, dict) and values.get("label_column") is None:
            sets = values.get("label_sets")
            if isinstance(sets, dict) and sets.get("columns"):
                return {**values, "label_column": LABELS_OF_COLUMNS}
        return values

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        if self.source == "hub" and not self.path:
            raise ValueError("path: source 'hub' needs the id of a data set, for example 'nyu-mll/glue'")
        if self.source == "sample" and self.path:
            raise ValueError(
                "path: source 'sample' reads no files; set source to 'files' or 'hub', or path to null"
            )
        self._check_labels()
        self._check_columns()
        _refuse_twice("splits", list(self.source_specs.values()))
        for name in self.divided:
            source = getattr(self.splits, name)
            if source != name:
                raise ValueError(
                    f"splits.{name}: {source!r} contradicts split.{name}, which takes rows of splits.train;"
                    f" set split.{name} to 0, or splits.{name} to its default, {name}"
                )
        return self

    def _check_labels(self) -> None:
        has_sets = self.task == "multilabel"
        if has_sets and self.label_sets is None:
            raise ValueError(
                f"label_sets: task {self.task!r} needs it: how {self.label_column!r} has several labels, for"
                " example {layout: separated, separator: ';'}, {layout: lists} or {layout: columns, columns:"
                " [a, b]}"
            )
        if not has_sets and self.label_sets is not None:
            raise ValueError(
                f"label_sets: task {self.task!r} has one label per row; set it to null, or task to multilabel"
            )
        names = self.label_names
        if names is None:
            return
        columns = self.label_sets.columns if self.label_sets else None
        if columns and sorted(names) != sorted(columns):
            raise ValueError(
                "label_names: must have the names of label_sets.columns, in any order; or set it to null"
            )
        if self.task == "regression":
            raise ValueError("label_names: a regression has no classes")
        _refuse_twice("label_names", names)

    def _check_columns(self) -> None:
        _refuse_twice("text_columns", self.text_columns)
        for name in self.label_columns:
            if name in self.text_columns:
                key = "label_column" if self.label_columns == [self.label_column] else "label_sets.columns"
                raise ValueError(f"{key}: {name!r} is also a text column")
        reserved = {"labels", "idx"} & set(self.text_columns)
        if reserved:
            raise ValueError(
                f"text_columns: {reserved.pop()!r} is a column that the pipeline adds; rename the column of"
                " the source"
            )

    @property
    def label_columns(self) -> list[str]:
        """The columns of the source that have the label: one, or a column for each label."""
        if self.label_sets is not None and self.label_sets.columns is not None:
            return self.label_sets.columns
        return [self.label_column]

    @property
    def divided(self) -> list[str]:
        """The splits that ``split`` takes from ``splits.train``.

        Their own entries in ``splits`` are not read.
        """
        if self.split is None:
            return []
        return [name for name in ("validation", "test") if getattr(self.split, name) > 0]

    @property
    def source_specs(self) -> dict[str, str]:
        """The entries of ``splits`` that are read, by split."""
        return {name: spec for name, spec in self.splits.model_dump().items() if name not in self.divided}


class WindowsParams(Section):
    """``tokenize.windows``: the windows of a text that is longer than the model (``long_text: windows``)."""

    stride: Annotated[int, Field(ge=0)] = 32
    """Tokens of the text that neighbouring windows share: about a sentence, so that none is only seen cut.

    A window has room for ``max_length`` tokens less the special tokens and, of a pair, the other text; that
    must be more than the stride.
    """
    max_windows: Positive = 8
    """Maximal number of windows of a document. Only what is beyond the last one is truncated.

    The windows of a document go through the model together, in training, too: memory and time of a document
    grow with their number.
    """
    answer: Literal["mean", "max"] = "mean"
    """The answer for a document, from the logits of its windows.

    ``mean``: their mean. ``max``: of each class the maximum, where one passage decides.
    """


class TokenizeParams(Section):
    """Section ``tokenize``."""

    vocab_size: Annotated[int, Field(ge=100)] = 4000
    """Most tokens of the WordPiece tokenizer that is trained on a million rows of train at most, where there
    is no checkpoint.
    """
    max_length: Annotated[int, Field(ge=4)] = 128
    """Most tokens that the model reads at once, special tokens included.

    ``long_text`` says what becomes of longer texts.
    """
    long_text: Literal["truncate", "windows"] = "truncate"
    """What is read of a longer text: ``truncate`` its beginning, ``windows`` all of it.
    docs/long-documents.md.
    """
    windows: WindowsParams
    """Overlap, largest number and answer of ``windows``."""

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        # each row has a special token at least, in nearly all tokenizers; the stage tokenize knows how many
        stride = self.windows.stride
        if self.long_text == "windows" and stride >= self.max_length - 1:
            raise ValueError(
                f"windows.stride: {stride} leaves nothing new for the next window, which has max_length:"
                f" {self.max_length} tokens with its special ones; set it to {self.max_length // 8}"
            )
        return self
