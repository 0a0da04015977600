"""What is expected of a split beside train, and beside the data of the promoted model, where one number tells."""

import pandas as pd
from great_expectations.expectations.expectation import Expectation

from stages.validate.expectations import ExpectColumnValuesToBeBetween
from stages.validate.lexicon import Lexicon
from stages.validate.profile import SplitProfile
from stages.validate.raw import RawSplit
from stages.validate.suites.table import expect
from tuneline.params import ValidateParams
from tuneline.params.validate import AtLeast

CHECKS = ("vocabulary_overlap", "promoted_rows", "promoted_vocabulary")


def between_suite(params: ValidateParams, table: pd.DataFrame) -> list[Expectation]:
    """What is expected of the shares in ``table``."""
    suite = []
    for check in CHECKS:
        if check in table.columns:
            least: AtLeast = getattr(params, check)
            suite.append(expect(ExpectColumnValuesToBeBetween, check, params, column=check, min_value=least.min))
    return suite


def between_table(split: RawSplit, train: Lexicon | None, promoted: SplitProfile | None) -> pd.DataFrame:
    """One row, with a column for each check that applies.

    ``vocabulary_overlap`` and ``promoted_vocabulary`` are shares of all words' occurrences; the latter is taken relative to what the
    promoted split itself reaches with its commonest words.
    """
    shares: dict[str, float] = {"row": 0}
    if train is not None:
        shares["vocabulary_overlap"] = split.lexicon.share_in(train.hashes)
    if promoted is not None:
        shares["promoted_rows"] = len(split.frame) / max(promoted.rows, 1)
        shares["promoted_vocabulary"] = split.lexicon.share_in(promoted.words) / max(promoted.known, 1e-9)
    return pd.DataFrame([shares])
