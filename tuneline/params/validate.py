"""Section ``validate``: severities and thresholds of the data checks.

An ``error`` that fails stops the pipeline after the report is written; a ``warning`` is only reported.
docs/data-checks.md gives the reason for each default. ``stages/validate/checks.py`` defines the checks, under
the same keys.
"""

from typing import Annotated, Literal

from pydantic import Field

from tuneline.params.section import Positive, PositiveFloat, Rate, Section

Severity = Literal["error", "warning"]


class Rule(Section):
    """A check without a threshold."""

    severity: Severity = "error"
    """``error``: if the check fails, the pipeline stops after the report is written.

    ``warning``: a failure is only reported.
    """


class AtMost(Rule):
    """A check with an upper limit for a fraction."""

    max: Rate = 0.0
    """Largest allowed fraction of violating rows; of unknown tokens for ``unknown_rate``; of the largest
    class for ``class_balance``; of the rows with both of two labels, among those with either, for
    ``inseparable_labels``. A limit of rows above 0 tolerates one row of any split.
    """


class AtLeast(Rule):
    """A check with a lower limit for a fraction."""

    min: Rate
    """Smallest allowed fraction: of word occurrences for a vocabulary; of the earlier number of rows for
    ``promoted_rows``.
    """


class RowCount(Rule):
    """``rows``: a lower limit for the number of rows."""

    min: Positive
    """Smallest allowed number of rows of a split."""


class DecodedText(AtMost):
    """``decoded_text``: comparison of decoded ids with the raw texts."""

    rows: Positive
    """Rows of each split that are decoded, evenly spaced."""


class RareClasses(AtMost):
    """``rare_classes``: rows of train whose class is rare, or missing in validation or the reported split."""

    min_rows: Positive
    """Smallest number of rows of a class in train."""


class NearDuplicates(AtMost):
    """``near_duplicates``: rows that resemble an earlier row of their split, or a row of an earlier split."""

    similarity: Annotated[float, Field(ge=0.4, lt=1)]
    """Fraction of the words that two near-duplicates have in common; rare words count more.
    """


class LearnableLabels(Rule):
    """``learnable_labels``: how well a cheap model predicts labels from texts.

    It fails if a whole 95 % interval is beyond a limit.
    """

    min_auc: Rate
    """Smallest allowed area under the ROC curve; 0.5 is the area of labels that have nothing to do with
    the texts.
    """
    max_auc_drop: Rate
    """By how much the area may be smaller than on train."""
    max_disagreement: Rate
    """Largest allowed fraction of other labels among the fifth of the rows of which the model is surest: a
    bound of random label noise.
    """


class Revealing(AtMost):
    """``revealing_words``, ``revealing_length``: what predicts a label almost alone."""

    max: Rate
    """Largest fraction of the rows of a label that may have the same revealing word, or a revealing length or
    number.
    """
    precision: Annotated[float, Field(gt=0, lt=1)]
    """From when a word is revealing: the precision closes at least this fraction of the gap between the
    label's share and 1.
    """


class DriftRule(Rule):
    """Limits for the distance of two distributions.

    The check fails if a distance is above its limit and significant.
    """

    max_psi: PositiveFloat = 0.25
    """Largest allowed population stability index."""
    max_ks: Annotated[float, Field(gt=0, le=1)] = 0.2
    """Largest allowed Kolmogorov-Smirnov distance; not applied to class labels, which have no order."""
    significance: Annotated[float, Field(gt=0, lt=1)] = 0.001
    """A distance with a p-value above this passes, however large it is, because small splits vary by chance.
    """


class ValidateParams(Section):
    """Parameters of every data check, by the key of the check in ``stages/validate/checks.py``."""

    columns: Rule = Rule()
    """Every split has the columns, types and label names that the pipeline writes."""
    rows: RowCount = RowCount(min=20)
    """Every split has enough rows."""
    missing_values: AtMost = AtMost()
    """No text and no label is null."""
    blank_text: AtMost = AtMost()
    """Every row has a visible character."""
    blank_in_pair: AtMost = AtMost(severity="warning", max=0.01)
    """Few pairs have a text without a visible character, such as messages without a subject."""
    control_characters: AtMost = AtMost(severity="warning")
    """Texts contain no control characters except tabs and line breaks."""
    broken_encoding: AtMost = AtMost(max=0.01)
    """Texts contain no U+FFFD and no UTF-8 that was read as Latin-1 or Windows-1252."""
    mixed_encoding: AtMost = AtMost(severity="warning")
    """No row has such characters; not checked where ``broken_encoding`` fails."""
    length_outliers: AtMost = AtMost(severity="warning", max=0.01)
    """The number of characters of a row is within three interquartile ranges of train's quartiles, on a log
    scale.
    """
    label_set: AtMost = AtMost()
    """Labels are ids of the label names; in a regression, finite numbers."""
    absent_classes: Rule = Rule()
    """Every class has a row in train."""
    rare_classes: RareClasses = RareClasses(severity="warning", min_rows=5)
    """Every class has enough rows in train, and one in validation and in the reported split."""
    class_names: AtMost = AtMost(severity="warning")
    """Names of classes differ visibly, and none looks like a header, a missing value or a text."""
    class_balance: AtMost = AtMost(severity="warning", max=0.9)
    """The most frequent label, or no label at all, does not make up almost all of a split."""
    inseparable_labels: AtMost = AtMost(severity="warning", max=0.95)
    """Several labels per row: no two labels occur almost always together."""
    conflicting_labels: AtMost = AtMost(max=0.02)
    """The same text has the same label; in a regression, within one standard deviation."""
    duplicates: AtMost = AtMost(severity="warning", max=0.05)
    """Rows do not repeat an earlier row of their split."""
    leakage: AtMost = AtMost(max=0.02)
    """Rows of validation and test are not in an earlier split; pairs in either order."""
    near_duplicates: NearDuplicates = NearDuplicates(severity="warning", max=0.25, similarity=0.5)
    """Few rows are near-duplicates of another row of their split, or of a row of an earlier split."""
    learnable_labels: LearnableLabels = LearnableLabels(
        severity="warning", min_auc=0.55, max_auc_drop=0.1, max_disagreement=0.25
    )
    """A cheap model can predict labels from texts."""
    revealing_words: Revealing = Revealing(severity="warning", max=0.25, precision=0.85)
    """No single word or word pair predicts a label almost alone."""
    revealing_length: Revealing = Revealing(severity="warning", max=0.25, precision=0.85)
    """Neither the length of a row nor a number in it predicts a label almost alone."""

    row_count: Rule = Rule()
    """A tokenized split has as many rows as the raw one."""
    ids_in_vocabulary: AtMost = AtMost()
    """Ids are between 0 and the tokenizer's largest id."""
    special_tokens: AtMost = AtMost()
    """Special tokens are where this tokenizer puts them, and nowhere else."""
    max_length: AtMost = AtMost()
    """No row is longer than ``tokenize.max_length``."""
    column_lengths: AtMost = AtMost()
    """Ids, mask and type ids of a row have the same length."""
    attention_mask: AtMost = AtMost()
    """The attention mask is 1 everywhere: rows are not padded yet."""
    token_type_ids: AtMost = AtMost()
    """Type ids are in the tokenizer's range and never decrease within a row."""
    token_labels: AtMost = AtMost()
    """Tokenized rows have the labels of the raw rows."""
    empty_rows: AtMost = AtMost()
    """Every row has a token that is not special."""
    unknown_rate: AtMost = AtMost(max=0.05)
    """Few tokens are unknown to the vocabulary."""
    truncation_rate: AtMost = AtMost(max=0.2)
    """Few rows fill ``tokenize.max_length``."""
    decoded_text: DecodedText = DecodedText(max=0.05, rows=200)
    """Decoded ids match the raw texts."""

    label_drift: DriftRule = DriftRule(severity="warning")
    """Labels of validation and test are distributed as in train."""
    length_drift: DriftRule = DriftRule(severity="warning")
    """Lengths in characters of validation and test are distributed as in train."""
    vocabulary_overlap: AtLeast = AtLeast(severity="warning", min=0.7)
    """Most word occurrences of validation and test are words of train."""

    promoted_rows: AtLeast = AtLeast(severity="warning", min=0.5)
    """A split has not shrunk, compared with the data of the promoted model."""
    promoted_labels: DriftRule = DriftRule(severity="warning")
    """Labels are distributed as in the data of the promoted model."""
    promoted_lengths: DriftRule = DriftRule(severity="warning")
    """Lengths in characters are distributed as in the data of the promoted model."""
    promoted_vocabulary: AtLeast = AtLeast(severity="warning", min=0.7)
    """Texts use the most frequent words of the promoted model's data as much as that data did."""
