"""The table of all data checks.

To add a check: an entry here, its parameters in ``params.yaml`` and ``conf/base.yaml`` (same key), a case in
``tests/stages/validate/test_checks.py``, and a row in ``docs/data-checks.md``. Parameters other than ``severity`` and ``max`` have a field
in ``tuneline/params/validate.py``.
"""

import difflib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from great_expectations.expectations.expectation import Expectation
from great_expectations.expectations.metadata_types import FailureSeverity

from stages.validate import builders
from stages.validate.builders import Builder, Facts, between, equal, measurement, one_of
from stages.validate.copies import NONE
from tuneline.errors import ParamsError
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


def require_parameters(params: ValidateParams) -> None:
    """Compare the keys under ``validate`` with the table of checks.

    Raises:
        ParamsError: A key is not a check, or a check has no parameters. The message lists all of them.
    """
    keys = dict(params)
    problems = [f"validate.{key}: missing; copy it from conf/base.yaml" for key in CHECKS if key not in keys]
    for key in keys.keys() - CHECKS.keys():
        nearest = difflib.get_close_matches(key, list(CHECKS), n=1)
        hint = f"did you mean validate.{nearest[0]}?" if nearest else "add a Check with this key to stages/validate/checks.py"
        problems.append(f"validate.{key}: not a data check; {hint}")
    if problems:
        raise ParamsError("\n  ".join(["params.yaml does not match the data checks:", *sorted(problems)]))


_FIX_SOURCE = "Correct these rows in the source and run `dvc repro`"
_TOKENIZE_AGAIN = "The tokenized data does not come from this raw data and tokenizer: run `dvc repro -f tokenize`."

# fmt: off
_CHECKS = (
    Check("columns", "columns", (builders.expected_schema,),
        title="Every split has the columns it should have, with their types and label names.",
        hint="Files under data/raw or data/tokenized were not written by this version of the pipeline: run `dvc repro -f download`."),
    Check("rows", "raw", (builders.enough_rows,), metric="rows",
        title="A split has enough rows.",
        hint="Look at data.splits and data.max_rows: a slice may be too small. Metrics on fewer rows are not reliable."),
    Check("missing_values", "raw", (between("missing", high=0),),
        title="No text and no label is missing.",
        hint=f"{_FIX_SOURCE}, or remove them from it."),
    Check("blank_text", "raw", (between("visible_characters", low=1),), metric="blank_rate",
        title="Every text has a visible character.",
        hint=f"{_FIX_SOURCE}. A row without text teaches only which label is frequent."),
    Check("control_characters", "raw", (between("control_characters", high=0),),
        title="Texts contain no control characters.",
        hint="The texts include binary data or a broken export. Clean them in the source; tokenizers drop or garble such characters."),
    Check("broken_encoding", "raw", (between("broken_characters", high=0),), metric="broken_encoding_rate",
        title="Texts were decoded with the right encoding.",
        hint="These texts contain replacement characters, or UTF-8 read as Latin-1. Set data.files.encoding, or export the source again."),
    Check("mixed_encoding", "raw", (between("mixed_characters", high=0, optional=True),),
        title="No single text was decoded with another encoding than it was written in.",
        hint="Correct these rows in the source. `tuneline data recode FILE --mojibake` shows such lines of a text file, and with --output "
             "writes a copy in utf-8 in which they are correct; set data.files.encoding to utf-8 if it is another."),
    Check("length_outliers", "raw", (builders.usual_lengths,),
        title="Texts have lengths similar to those of train.",
        hint="Look at the rows: merged records, pasted documents and truncated texts are far longer or shorter than the rest."),
    Check("label_set", "raw", (builders.valid_labels,),
        title="Every label is one of the label names (regression: a finite number).",
        hint="Look at data.label_column and data.label_names. A split without labels (-1) cannot be trained or reported on: choose "
             "another with evaluate.split or data.splits."),
    Check("absent_classes", "raw", (builders.all_classes,),
        title="Every class has a row in train.",
        hint="A class without training rows cannot be learnt. Remove it from data.label_names, or split the data so that train has it."),
    Check("rare_classes", "raw", (between("rare_class", high=0, optional=True),),
        title="Every class has rows enough to be learnt and measured: some in train, one in validation and in the reported split.",
        hint="A class of one row is often a typo or a header line: correct it. Otherwise collect more rows of it, join it with another "
             "class, or divide the data with data.split.stratify."),
    Check("class_names", "raw", (between("name_faults", high=0, optional=True),),
        title="The names of the classes differ visibly, and none looks like a header, a missing value or a text.",
        hint="Correct the labels of these rows in the source. A name that is as it should be can be listed in data.label_names."),
    Check("class_balance", "raw", (builders.balanced_labels,), metric="imbalance",
        title="No label makes up almost all of a split.",
        hint="A model may learn to predict nothing else. Report a metric that shows it (macro F1), collect more rows of the rare "
             "classes, or raise validate.class_balance.max if the real distribution is like this."),
    Check("conflicting_labels", "raw", (one_of("conflict_with", [NONE], optional=True),), metric="conflict_rate",
        title="The same text has the same label.",
        hint="Decide between the labels and correct the source: no model can predict both, so these rows limit the reachable accuracy."),
    Check("duplicates", "raw", (one_of("duplicate_of", [NONE]),), metric="duplicate_rate",
        title="A split does not repeat texts.",
        hint="Remove the copies from the source: they weigh more in training, and a metric counts them more than once."),
    Check("leakage", "raw", (one_of("leak_of", [NONE], optional=True),), metric="leakage_rate",
        title="No text of validation or test is in an earlier split.",
        hint="Remove these rows from the earlier split, or split the source again by text. Trained rows measure memorization."),
    Check("near_duplicates", "raw", (one_of("near_duplicate_of", [NONE]),), metric="near_duplicate_rate",
        title="Few rows resemble another row of their split, or a row of an earlier split.",
        hint="Look at the pairs. If they are the same record with small edits, split the source by record (customer, document), not by "
             "row: data.split.by. If they are filled from templates, the metric is about these templates only."),
    Check("learnable_labels", "between", (measurement("auc_high", least="min_auc"),
                                             measurement("auc_drop", most="max_auc_drop"),
                                             measurement("disagreement_low", most="max_disagreement")), metric="label_auc",
        title="A cheap linear model can predict labels from texts, and few labels contradict what it is surest of.",
        hint="Look at rows and their labels: they may have been shuffled, joined by the wrong key, or given another meaning in one split; "
             "as many as disagree may be wrong. If they are right, words alone do not decide this task: raise "
             "validate.learnable_labels.max_disagreement, or lower min_auc."),
    Check("revealing_words", "between", (measurement("revealing_words", most="max"),), metric="revealing_words",
        title="No single word or word pair predicts a label almost alone.",
        hint="Look for the label, a template or an id that the export wrote into the text, and remove it from the source: a model learns "
             "it instead of the task, and meets texts without it later. If real texts have this word, raise validate.revealing_words.max."),
    Check("revealing_length", "between", (measurement("revealing_length", most="max"),), metric="revealing_length",
        title="Neither the length of a row nor a number or date in it predicts a label almost alone.",
        hint="Look at how the classes were collected: from different sources, in different months, or cut at different lengths? A model "
             "learns that instead of the task. If real texts are like this, raise validate.revealing_length.max."),
    Check("row_count", "tokenized", (builders.as_many_rows_as_raw,),
        title="A tokenized split has as many rows as the raw one.",
        hint=_TOKENIZE_AGAIN),
    Check("ids_in_vocabulary", "tokenized", (between("smallest_id", low=0),
                                             between("largest_id", high=lambda facts: facts.vocabulary.largest_id)),
        title="Every id is in the tokenizer's vocabulary.",
        hint=_TOKENIZE_AGAIN),
    Check("special_tokens", "tokenized", (builders.template_tokens,),
        title="Special tokens are where this tokenizer puts them, and nowhere else.",
        hint="Texts that contain a special token literally (such as [SEP]) become that token: remove it from the source. Otherwise the "
             "data was tokenized with another tokenizer: run `dvc repro -f tokenize`."),
    Check("max_length", "tokenized", (between("tokens", high=lambda facts: facts.max_length),),
        title="No row is longer than tokenize.max_length.",
        hint=_TOKENIZE_AGAIN),
    Check("column_lengths", "tokenized", (equal("tokens", "mask_tokens"), equal("tokens", "type_tokens", optional=True)),
        title="Ids, mask and type ids of a row have the same length.",
        hint=_TOKENIZE_AGAIN),
    Check("attention_mask", "tokenized", (between("smallest_mask", low=1), between("largest_mask", high=1)),
        title="The attention mask is 1 at all positions: rows are not padded yet.",
        hint=_TOKENIZE_AGAIN),
    Check("token_type_ids", "tokenized", (between("smallest_type", low=0, optional=True),
                                          between("largest_type", high=lambda facts: facts.vocabulary.largest_type_id, optional=True),
                                          between("type_drops", high=0, optional=True)),
        title="Type ids never decrease within a row, and are in the tokenizer's range.",
        hint=_TOKENIZE_AGAIN),
    Check("token_labels", "tokenized", (equal(LABELS, "raw_labels", optional=True),),
        title="Tokenized rows have the labels of the raw rows.",
        hint=_TOKENIZE_AGAIN),
    Check("empty_rows", "tokenized", (between("content_tokens", low=1),),
        title="Every row has a token that is not special.",
        hint=f"{_FIX_SOURCE}: the tokenizer drops everything in these texts."),
    Check("unknown_rate", "tokenized", (builders.known_tokens,), metric="unknown_rate",
        title="Few tokens are unknown to the vocabulary.",
        hint="The tokenizer was made for other texts: train one (tokenize.tokenizer: null), raise tokenize.vocab_size, or choose a "
             "checkpoint for this language."),
    Check("truncation_rate", "tokenized", (between("tokens", high=lambda facts: facts.max_length - 1),), metric="truncation_rate",
        title="Few rows fill tokenize.max_length.",
        hint="Longer texts are truncated. Raise tokenize.max_length (and the model's positions), or accept it by raising "
             "validate.truncation_rate.max."),
    Check("decoded_text", "tokenized", (one_of("decoded", [1], optional=True),),
        title="Decoded ids match the raw texts.",
        hint="Either the data was tokenized from other rows (run `dvc repro -f tokenize`), or this tokenizer drops characters: compare "
             "the excerpts with the decoded texts."),
    Check("label_drift", "raw", (builders.label_drift("train", "label_drift"),), metric="label_psi",
        title="Labels are distributed as in train.",
        hint="The split is not a random sample like train: shuffle before splitting, or consider the difference when reading the metrics."),
    Check("length_drift", "raw", (builders.length_drift("train", "length_drift"),), metric="length_psi",
        title="Lengths of texts are distributed as in train.",
        hint="The split is not a random sample like train: shuffle before splitting, or look for texts of another kind."),
    Check("vocabulary_overlap", "between", (measurement("vocabulary_overlap", least="min"),), metric="vocabulary_overlap",
        title="Most words of the split occur in train.",
        hint="The split has other topics or another language than train: look at its source."),
    Check("promoted_rows", "between", (measurement("promoted_rows", least="min"),), metric="promoted_rows",
        title="The split has not shrunk compared with the promoted model's data.",
        hint="Look for a source that was only fetched in part. If the change is intended, promote this data's profile."),
    Check("promoted_labels", "raw", (builders.label_drift("promoted", "promoted_labels"),), metric="promoted_label_psi",
        title="Labels are distributed as in the promoted model's data.",
        hint="Find out what changed in the source. If the real distribution did, promote this data's profile with the new model."),
    Check("promoted_lengths", "raw", (builders.length_drift("promoted", "promoted_lengths"),), metric="promoted_length_psi",
        title="Lengths of texts are distributed as in the promoted model's data.",
        hint="Find out what changed in the source. If the real distribution did, promote this data's profile with the new model."),
    Check("promoted_vocabulary", "between", (measurement("promoted_vocabulary", least="min"),), metric="promoted_vocabulary",
        title="Texts use the words of the promoted model's data.",
        hint="Find out what changed in the source: another language, another product, another export."),
)
# fmt: on
CHECKS = {check.key: check for check in _CHECKS}
"""All checks by key, in the order of the report."""
