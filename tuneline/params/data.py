"""Sections ``data`` and ``tokenize``: what the line learns from, and how its text becomes ids."""

from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from tuneline.params.section import Section

Task = Literal["classification", "regression"]


class SampleParams(Section):
    """``data.sample``: the embedded ticket generator."""

    rows: Annotated[int, Field(ge=100)] = 10_000
    """Tickets in all, shared out 8 : 1 : 1 over train, validation and test."""
    mislabelled: Annotated[float, Field(ge=0, lt=1)] = 0.03
    """Share of the tickets that carry a wrong queue, in every split."""


class FilesParams(Section):
    """``data.files``: how the files under ``data/source/`` are written."""

    delimiter: str | None = None
    """One character. ``null``: comma for .csv, tab for .tsv."""
    quoting: Literal["standard", "literal"] | None = None
    """``standard``: a quote opens a field that may hold delimiters and newlines. ``literal``: a quote is a character
    like any other. ``null``: standard for .csv, literal for .tsv."""
    columns: list[str] | None = None
    """Column names of CSV and TSV files without a header line. ``null``: the first line names them."""
    encoding: str = "utf-8"
    """Of CSV, TSV and JSONL. A byte order mark is dropped."""

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        if self.delimiter is not None and (len(self.delimiter) != 1 or self.delimiter in '"\r\n'):
            raise ValueError(f"delimiter: one character is wanted, no quote and no line end, not {self.delimiter!r}")
        if self.columns is not None and len(set(self.columns)) != len(self.columns):
            raise ValueError(f"columns: {_twice(self.columns)!r} stands there twice")
        try:
            "".encode(self.encoding)
        except LookupError:
            raise ValueError(f"encoding: {self.encoding!r} is none that Python knows; utf-8, cp1252 and latin-1 are common") from None
        return self


def _twice(names: list[str]) -> str:
    return next(name for name in names if names.count(name) > 1)


class Splits(Section):
    """``data.splits``: where each split of the line comes from, in the slice syntax of the datasets library."""

    train: str = "train"
    validation: str = "validation"
    test: str = "test"


class DataParams(Section):
    """``data``: source, columns and task."""

    source: Literal["sample", "files", "hub"] = "sample"
    path: str | None = None
    """hub: the data set's id. files: a folder under ``data/source/``, ``null`` for that folder itself."""
    name: str | None = None
    """hub: the configuration, for example ``mrpc``."""
    revision: str | None = None
    """hub: a commit, tag or branch; the commit it stood for is recorded in ``data/raw/source.json``."""
    splits: Splits = Splits()
    text_columns: Annotated[list[str], Field(min_length=1, max_length=2)] = ["subject", "body"]
    label_column: str = "queue"
    label_names: list[str] | None = None
    """Class names in the order of their ids. ``null``: those of the source, else sorted."""
    task: Task = "classification"
    max_rows: Annotated[int, Field(ge=1)] | None = None
    """At most so many rows of each split, drawn with ``seed``."""
    drop_incomplete: bool = False
    """Leave out rows without text or without a label, and say how many. ``false``: the first one is an error."""
    sample: SampleParams = SampleParams()
    files: FilesParams = FilesParams()

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        if self.source == "hub" and not self.path:
            raise ValueError("path: source 'hub' needs the id of a data set, for example 'nyu-mll/glue'")
        if self.source != "hub" and (self.name or self.revision):
            raise ValueError(f"{'name' if self.name else 'revision'}: only source 'hub' has one; source is {self.source!r}")
        if self.source == "sample" and self.path:
            raise ValueError("path: source 'sample' reads no files; set source to 'files' or 'hub', or path to null")
        return self

    @model_validator(mode="after")
    def _consistent_columns(self) -> Self:
        if len(set(self.text_columns)) != len(self.text_columns):
            raise ValueError(f"text_columns: {self.text_columns[0]!r} stands there twice")
        if self.label_column in self.text_columns:
            raise ValueError(f"label_column: {self.label_column!r} is a text column too")
        if taken := {"labels", "idx"} & set(self.text_columns):
            raise ValueError(f"text_columns: {taken.pop()!r} is a column that the line adds itself; rename that of the source")
        missing = [name for name in (*self.text_columns, self.label_column) if name not in (self.files.columns or [name])]
        if missing and self.source == "files":
            raise ValueError(f"files.columns: {missing[0]!r} is not among them, and text_columns or label_column names it")
        return self

    @model_validator(mode="after")
    def _consistent_names(self) -> Self:
        names = self.label_names
        if names is None:
            return self
        if self.task == "regression":
            raise ValueError("label_names: a regression has none")
        if len(names) < 2 or "" in names:
            raise ValueError("label_names: two classes at least are wanted, each with a name")
        if len(set(names)) != len(names):
            raise ValueError(f"label_names: {_twice(names)!r} stands there twice")
        return self


class TokenizeParams(Section):
    """``tokenize``."""

    tokenizer: str | None = None
    """Name on the hub, or a folder. ``null``: a WordPiece tokenizer of ``vocab_size`` trained on the train split."""
    revision: str | None = None
    vocab_size: Annotated[int, Field(ge=100)] = 4000
    max_length: Annotated[int, Field(ge=4)] = 128
    """Tokens, special ones included; longer texts are cut."""
