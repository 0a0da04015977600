"""Which rows of a split repeat another row, as columns beside its other scalars."""

from collections.abc import Mapping
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from stages.validate.copies import NONE, conflicts, earlier_copies, leaks
from stages.validate.near_duplicates import near_duplicates, sample
from stages.validate.raw import RawSplit
from tuneline.files.schemas import LabelSchema
from tuneline.params import ValidateParams
from tuneline.paths import split_file


def relations(
    raw: Mapping[str, RawSplit], split: str, *, params: ValidateParams, folder: Path, text_columns: list[str], labels: LabelSchema
) -> dict[str, NDArray[np.generic]]:
    """Looks the rows of one split up among themselves and in the splits before it.

    Args:
        raw: What is known of each split, in the order of the line.
        split: The one whose rows are looked up.
        params: How alike near-duplicates are, and how many rows are looked up.
        folder: Of the raw files.
        text_columns: The columns that hold texts.
        labels: What labels mean.

    Returns:
        Of shape ``[rows]`` each, -1 for none. ``duplicate_of`` and ``conflict_with``: a row of the split. ``leak_of`` and
        ``near_duplicate_of``: a row of the splits before it, counted through all of them. ``similarity`` goes with the latter.
    """
    here = raw[split]
    found: dict[str, NDArray[np.generic]] = {"duplicate_of": earlier_copies(here.keys)}
    if here.is_labelled:
        tolerance = float(np.nanstd(here.labels)) if labels.is_regression else 0.0
        found["conflict_with"] = conflicts(here.keys, here.labels, tolerance)
    earlier = [name for name in raw if list(raw).index(name) < list(raw).index(split)]
    if earlier:
        leak_of = leaks([raw[name].unordered_keys for name in earlier], here.unordered_keys)
        chosen = sample(here.unordered_keys, params.near_duplicates.rows)
        near = near_duplicates(
            split_file(folder, split),
            chosen[leak_of[chosen] == NONE],  # a copy is told as a leak, not here too
            len(here.frame),
            earlier=[split_file(folder, name) for name in earlier],
            text_columns=text_columns,
            similarity=params.near_duplicates.similarity,
        )
        near.origin[chosen] = np.nan_to_num(near.origin[chosen], nan=NONE)
        found |= {"leak_of": leak_of, "near_duplicate_of": near.origin, "similarity": near.similarity}
    return found
