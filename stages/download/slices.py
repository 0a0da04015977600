"""``data.splits``: which rows of the source become which split, in the slice syntax of the datasets library."""

import re
from collections.abc import Iterator, Mapping
from itertools import combinations
from typing import NamedTuple

from tuneline.errors import DataError

SYNTAX = "https://huggingface.co/docs/datasets/loading#slice-splits"
_HINT = f"Write 'train', 'train[:90%]', 'train[100:200]' or a sum of slices: {SYNTAX}"
_NAME = re.compile(r"\w+(\.\w+)*", re.ASCII)


class Slice(NamedTuple):
    """Rows ``start`` to ``stop`` (exclusive) of a source's split."""

    source: str
    start: int
    stop: int


def source_splits(split: str, spec: str) -> list[str]:
    """Return the names of the source's splits that a specification uses.

    Args:
        split: The split of the pipeline, for messages.
        spec: For example ``train[:90%]``.

    Raises:
        DataError: The specification is not in the slice syntax.
    """
    if _NAME.fullmatch(spec):
        return [spec]
    names = [relative.splitname for relative in _instruction(split, spec)._relative_instructions]
    return list(dict.fromkeys(names))


def resolve(split: str, spec: str, rows: Mapping[str, int]) -> list[Slice]:
    """Resolve a specification to row numbers.

    Args:
        split: The split of the pipeline, for messages.
        spec: For example ``train[:90%]``.
        rows: Number of rows of each of the source's splits.

    Raises:
        DataError: It selects no rows.
    """
    if _NAME.fullmatch(spec):
        slices = [Slice(spec, 0, rows[spec])]
    else:
        try:
            absolute = _instruction(split, spec).to_absolute(dict(rows))
        except ValueError as error:
            raise DataError(f"data.splits.{split}: {spec!r}: {error}", _HINT) from None
        slices = [Slice(part.splitname, part.from_, part.to) for part in absolute if part.from_ < part.to]
    if not any(part.stop > part.start for part in slices):
        sizes = ", ".join(f"{name!r} has {rows[name]:,}" for name in source_splits(split, spec))
        raise DataError(f"data.splits.{split}: {spec!r} selects no rows.", f"Available rows: {sizes}.")
    return slices


def _instruction(split: str, spec: str):  # type: ignore[no-untyped-def]  # noqa: ANN202 - a class of datasets, which has no types
    from datasets.arrow_reader import ReadInstruction

    try:
        return ReadInstruction.from_spec(spec)
    except ValueError as error:
        raise DataError(f"data.splits.{split}: {spec!r} is not a slice: {error}", _HINT) from None


def refuse_overlaps(slices: Mapping[str, list[Slice]]) -> None:
    """Check that no row is in two splits: evaluating on training rows overestimates the model.

    Raises:
        DataError: Two splits overlap; the message names the first such rows.
    """
    for (one, parts), (other, others) in combinations(slices.items(), 2):
        for source, start, stop in _shared(parts, others):
            raise DataError(
                f"data.splits: rows {start:,} to {stop - 1:,} of {source!r} would be in both {one} and {other}.",
                f"Separate them, for example {one}: '{source}[:90%]', {other}: '{source}[90%:]'.",
            )


def _shared(parts: list[Slice], others: list[Slice]) -> Iterator[Slice]:
    for part in parts:
        for other in others:
            start, stop = max(part.start, other.start), min(part.stop, other.stop)
            if part.source == other.source and start < stop:
                yield Slice(part.source, start, stop)
