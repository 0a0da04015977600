"""The table of all data checks.

To add a check: an entry here, its parameters in ``tuneline/params/validate.py`` (same key), a case in
``tests/stages/validate/test_checks.py``, and a line in ``docs/data-checks.md``.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from great_expectations.expectations.expectation import Expectation
from great_expectations.expectations.metadata_types import FailureSeverity

from stages.validate import builders
from stages.validate.builders import Builder, Facts, at_least, between, equal, one_of
from stages.validate.copies import NONE
from tuneline.files.schemas import LABELS
from tuneline.params.validate import Rule, ValidateParams

SEVERITIES = {"error": FailureSeverity.CRITICAL, "warning": FailureSeverity.WARNING}
TableKind = Literal["columns", "raw", "tokenized", "between"]


@dataclass(frozen=True)
class Check:
    """One data check.

    Attributes:
        key: Name of the check, and of its parameters under ``validate:``.
        table: Kind of the tables that it checks.
        build: Builders of its expectations.
        title: The requirement, for the report.
        hint: How to fix a violation, for the report.
        metric: Name of its measurement in ``metrics/validate.json``, after the split; ``None`` if it is not a metric. The measurement is
            the fraction of violating rows, or the observed value where the expectation is about the whole table.
    """

    key: str
    table: TableKind
    build: tuple[Builder, ...]
    title: str
    hint: str
    metric: str | None = None


def expectations(table: TableKind, params: ValidateParams, facts: Facts) -> Iterator[Expectation]:
    """Yield the expectations of one table; ``expectation.meta["check"]`` is the key of the check."""
    for check in CHECKS.values():
        if check.table == table:
            rule: Rule = getattr(params, check.key)
            for build in check.build:
                for expectation, arguments in build(rule, facts):
                    yield expectation(severity=SEVERITIES[rule.severity], meta={"check": check.key}, **arguments)


_FIX_SOURCE = "Mend these rows in the source and run `dvc repro`"
_TOKENIZE_AGAIN = "The tokenized data does not come from this raw data and tokenizer: run `dvc repro -f tokenize`."

# fmt: off
_CHECKS = (
    Check("columns", "columns", (builders.expected_schema,),
        title="Every split has the columns it should have, with their types and label names.",
        hint="Files under data/raw or data/tokenized were not written by this version of the line: run `dvc repro -f download`."),
    Check("rows", "raw", (builders.enough_rows,), metric="rows",
        title="A split has enough rows.",
        hint="Look at data.splits and data.max_rows: a slice may be cut too small. Fewer rows than this measure nothing."),
    Check("missing_values", "raw", (between("missing", high=0),),
        title="No text and no label is missing.",
        hint=f"{_FIX_SOURCE}, or leave them out of it."),
    Check("blank_text", "raw", (between("visible_characters", low=1),), metric="blank_rate",
        title="Every text has a visible character.",
        hint=f"{_FIX_SOURCE}. A row without text teaches only which label is frequent."),
    Check("control_characters", "raw", (between("control_characters", high=0),),
        title="Texts hold no control characters.",
        hint="Something binary, or a broken export, is among the texts. Clean them in the source; tokenizers drop or garble them."),
    Check("broken_encoding", "raw", (between("broken_characters", high=0),), metric="broken_encoding_rate",
        title="Texts were decoded with the right encoding.",
        hint="These texts hold replacement characters, or UTF-8 read as Latin-1. Set data.files.encoding, or export the source again."),
    Check("length_outliers", "raw", (builders.usual_lengths,),
        title="Texts are about as long as those of train.",
        hint="Look at the rows: run-together records, pasted documents and cut-off texts are far longer or shorter than the rest."),
    Check("label_set", "raw", (builders.valid_labels,),
        title="Every label is one of the label names (regression: a finite number).",
        hint="Look at data.label_column and data.label_names. A split without labels (-1) cannot be trained or reported on: choose "
             "another with evaluate.split or data.splits."),
    Check("absent_classes", "raw", (builders.all_classes,),
        title="Every class has a row in train.",
        hint="A class that is never seen cannot be learnt. Take its name out of data.label_names, or cut the splits so that train has it."),
    Check("class_balance", "raw", (builders.balanced_labels,), metric="imbalance",
        title="No label makes up almost all of a split.",
        hint="A model may learn to say nothing else. Report a metric that notices (macro F1), gather the rare classes, or raise "
             "validate.class_balance.max if the world is like this."),
    Check("conflicting_labels", "raw", (one_of("conflict_with", [NONE], optional=True),), metric="conflict_rate",
        title="The same text has the same label.",
        hint="Decide between the labels and mend the source: no model can get both right, so this share is lost from the start."),
    Check("duplicates", "raw", (one_of("duplicate_of", [NONE]),), metric="duplicate_rate",
        title="A split does not repeat texts.",
        hint="Drop the copies in the source: they weigh more in training, and a metric counts them more than once."),
    Check("leakage", "raw", (one_of("leak_of", [NONE], optional=True),), metric="leakage_rate",
        title="No text of validation or test stands in an earlier split.",
        hint="Drop these rows from the earlier split, or split the source again by text. What was trained on measures memory, not skill."),
    Check("near_duplicates", "raw", (one_of("near_duplicate_of", [NONE], optional=True),), metric="near_duplicate_rate",
        title="Few texts of validation and test are almost the same as one of an earlier split.",
        hint="Look at the pairs. If they are the same record with small edits, split the source by record (customer, document), not by "
             "row."),
    Check("row_count", "tokenized", (builders.as_many_rows_as_raw,),
        title="A tokenized split has as many rows as the raw one.",
        hint=_TOKENIZE_AGAIN),
    Check("ids_in_vocabulary", "tokenized", (between("smallest_id", low=0),
                                             between("largest_id", high=lambda facts: facts.vocabulary.largest_id)),
        title="Every id is in the tokenizer's vocabulary.",
        hint=_TOKENIZE_AGAIN),
    Check("special_tokens", "tokenized", (builders.template_tokens,),
        title="Special tokens stand where this tokenizer puts them, and nowhere else.",
        hint="Texts that spell a special token out (such as [SEP]) become that token: take it out of the source. Else the tokenized "
             "data is of another tokenizer: run `dvc repro -f tokenize`."),
    Check("max_length", "tokenized", (between("tokens", high=lambda facts: facts.max_length),),
        title="No row is longer than tokenize.max_length.",
        hint=_TOKENIZE_AGAIN),
    Check("column_lengths", "tokenized", (equal("tokens", "mask_tokens"), equal("tokens", "type_tokens", optional=True)),
        title="Ids, mask and type ids of a row are equally many.",
        hint=_TOKENIZE_AGAIN),
    Check("attention_mask", "tokenized", (between("smallest_mask", low=1), between("largest_mask", high=1)),
        title="The attention mask is 1 everywhere: rows are not padded yet.",
        hint=_TOKENIZE_AGAIN),
    Check("token_type_ids", "tokenized", (between("smallest_type", low=0, optional=True),
                                          between("largest_type", high=lambda facts: facts.vocabulary.largest_type_id, optional=True),
                                          between("type_drops", high=0, optional=True)),
        title="Type ids never fall within a row, and stay in the tokenizer's range.",
        hint=_TOKENIZE_AGAIN),
    Check("token_labels", "tokenized", (equal(LABELS, "raw_labels", optional=True),),
        title="Tokenized rows have the labels of the raw rows.",
        hint=_TOKENIZE_AGAIN),
    Check("empty_rows", "tokenized", (between("content_tokens", low=1),),
        title="Every row has a token beside the special ones.",
        hint=f"{_FIX_SOURCE}: the tokenizer drops everything in these texts."),
    Check("unknown_rate", "tokenized", (builders.known_tokens,), metric="unknown_rate",
        title="Few tokens are unknown to the vocabulary.",
        hint="The tokenizer was made for other text: train one (tokenize.tokenizer: null), raise tokenize.vocab_size, or choose a "
             "checkpoint for this language."),
    Check("truncation_rate", "tokenized", (between("tokens", high=lambda facts: facts.max_length - 1),), metric="truncation_rate",
        title="Few rows fill tokenize.max_length.",
        hint="What lies beyond it is cut off. Raise tokenize.max_length (and the model's positions), or accept it with "
             "validate.truncation_rate.max."),
    Check("decoded_text", "tokenized", (one_of("decoded", [1], optional=True),),
        title="Ids turned back into text say what the raw rows say.",
        hint="Either the tokenized data is of other rows (run `dvc repro -f tokenize`), or this tokenizer drops characters: compare the "
             "excerpts with what it decodes."),
    Check("label_drift", "raw", (builders.label_drift("train", "label_drift"),), metric="label_psi",
        title="LabelSchema are spread as in train.",
        hint="The split was not drawn like train: shuffle before splitting, or take the difference into account when you read the metric."),
    Check("length_drift", "raw", (builders.length_drift("train", "length_drift"),), metric="length_psi",
        title="Texts are as long as in train.",
        hint="The split was not drawn like train: shuffle before splitting, or look for texts of another kind."),
    Check("vocabulary_overlap", "between", (at_least("vocabulary_overlap"),), metric="vocabulary_overlap",
        title="Most words of the split occur in train.",
        hint="The split speaks of other things, or another language, than train: look at what it was drawn from."),
    Check("promoted_rows", "between", (at_least("promoted_rows"),), metric="promoted_rows",
        title="The split did not shrink against the data of the promoted model.",
        hint="Look for a source that was only fetched in part. If it is meant, promote this data's profile."),
    Check("promoted_labels", "raw", (builders.label_drift("promoted", "promoted_labels"),), metric="promoted_label_psi",
        title="LabelSchema are spread as in the data of the promoted model.",
        hint="Find out what changed in the source. If the world did, promote this data's profile with the new model."),
    Check("promoted_lengths", "raw", (builders.length_drift("promoted", "promoted_lengths"),), metric="promoted_length_psi",
        title="Texts are as long as in the data of the promoted model.",
        hint="Find out what changed in the source. If the world did, promote this data's profile with the new model."),
    Check("promoted_vocabulary", "between", (at_least("promoted_vocabulary"),), metric="promoted_vocabulary",
        title="Texts use the words of the data of the promoted model.",
        hint="Find out what changed in the source: another language, another product, another export."),
)
# fmt: on
CHECKS = {check.key: check for check in _CHECKS}
"""All checks by key, in the order of the report."""
