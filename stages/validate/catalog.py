"""What each check protects, in the words of the report: what should hold, and what to do when it does not."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Check:
    """One check.

    Attributes:
        title: What should hold.
        advice: What to do when it does not.
    """

    title: str
    advice: str


_MEND_SOURCE = "Mend these rows in the source and run `dvc repro`"
_TOKENIZE_AGAIN = "The tokenized data does not come from this raw data and tokenizer: run `dvc repro -f tokenize`."

CHECKS = {
    "columns": Check(
        "Every split has the columns it should have, with their types and label names.",
        "Files under data/raw or data/tokenized were not written by this version of the line: run `dvc repro -f download`.",
    ),
    "rows": Check(
        "A split has enough rows.",
        "Look at data.splits and data.max_rows: a slice may be cut too small. Fewer rows than this measure nothing.",
    ),
    "missing_values": Check("No text and no label is missing.", f"{_MEND_SOURCE}, or leave them out of it."),
    "blank_text": Check(
        "Every text has a visible character.",
        f"{_MEND_SOURCE}. A row without text teaches only which label is frequent.",
    ),
    "control_characters": Check(
        "Texts hold no control characters.",
        "Something binary, or a broken export, is among the texts. Clean them in the source; tokenizers drop or garble them.",
    ),
    "broken_encoding": Check(
        "Texts were decoded with the right encoding.",
        "These texts hold replacement characters, or UTF-8 read as Latin-1. Set data.files.encoding, or export the source again.",
    ),
    "length_outliers": Check(
        "Texts are about as long as those of train.",
        "Look at the rows: run-together records, pasted documents and cut-off texts are far longer or shorter than the rest.",
    ),
    "label_set": Check(
        "Every label is one of the label names (regression: a finite number).",
        "Look at data.label_column and data.label_names. A split without labels (-1) cannot be trained or reported on: choose "
        "another with evaluate.split or data.splits.",
    ),
    "absent_classes": Check(
        "Every class has a row in train.",
        "A class that is never seen cannot be learnt. Take its name out of data.label_names, or cut the splits so that train has it.",
    ),
    "class_balance": Check(
        "No label makes up almost all of a split.",
        "A model may learn to say nothing else. Report a metric that notices (macro F1), gather the rare classes, or raise "
        "validate.class_balance.max if the world is like this.",
    ),
    "conflicting_labels": Check(
        "The same text has the same label.",
        "Decide between the labels and mend the source: no model can get both right, so this share is lost from the start.",
    ),
    "duplicates": Check(
        "A split does not repeat texts.",
        "Drop the copies in the source: they weigh more in training, and a metric counts them more than once.",
    ),
    "leakage": Check(
        "No text of validation or test stands in an earlier split.",
        "Drop these rows from the earlier split, or split the source again by text. What was trained on measures memory, not skill.",
    ),
    "near_duplicates": Check(
        "Few texts of validation and test are almost the same as one of an earlier split.",
        "Look at the pairs. If they are the same record with small edits, split the source by record (customer, document), not by row.",
    ),
    "row_count": Check("A tokenized split has as many rows as the raw one.", _TOKENIZE_AGAIN),
    "ids_in_vocabulary": Check("Every id is in the tokenizer's vocabulary.", _TOKENIZE_AGAIN),
    "special_tokens": Check(
        "Special tokens stand where this tokenizer puts them, and nowhere else.",
        "Texts that spell a special token out (such as [SEP]) become that token: take it out of the source. "
        "Else the tokenized data is of another tokenizer: run `dvc repro -f tokenize`.",
    ),
    "max_length": Check("No row is longer than tokenize.max_length.", _TOKENIZE_AGAIN),
    "column_lengths": Check("Ids, mask and type ids of a row are equally many.", _TOKENIZE_AGAIN),
    "attention_mask": Check("The attention mask is 1 everywhere: rows are not padded yet.", _TOKENIZE_AGAIN),
    "token_type_ids": Check("Type ids never fall within a row, and stay in the tokenizer's range.", _TOKENIZE_AGAIN),
    "token_labels": Check("Tokenized rows have the labels of the raw rows.", _TOKENIZE_AGAIN),
    "empty_rows": Check(
        "Every row has a token beside the special ones.",
        f"{_MEND_SOURCE}: the tokenizer drops everything in these texts.",
    ),
    "unknown_rate": Check(
        "Few tokens are unknown to the vocabulary.",
        "The tokenizer was made for other text: train one (tokenize.tokenizer: null), raise tokenize.vocab_size, or choose a "
        "checkpoint for this language.",
    ),
    "truncation_rate": Check(
        "Few rows fill tokenize.max_length.",
        "What lies beyond it is cut off. Raise tokenize.max_length (and the model's positions), or accept it with "
        "validate.truncation_rate.max.",
    ),
    "decoded_text": Check(
        "Ids turned back into text say what the raw rows say.",
        "Either the tokenized data is of other rows (run `dvc repro -f tokenize`), or this tokenizer drops characters: compare the "
        "excerpts with what it decodes.",
    ),
    "label_drift": Check(
        "LabelSchema are spread as in train.",
        "The split was not drawn like train: shuffle before splitting, or take the difference into account when you read the metric.",
    ),
    "length_drift": Check(
        "Texts are as long as in train.",
        "The split was not drawn like train: shuffle before splitting, or look for texts of another kind.",
    ),
    "vocabulary_overlap": Check(
        "Most words of the split occur in train.",
        "The split speaks of other things, or another language, than train: look at what it was drawn from.",
    ),
    "promoted_rows": Check(
        "The split did not shrink against the data of the promoted model.",
        "Look for a source that was only fetched in part. If it is meant, promote this data's profile.",
    ),
    "promoted_labels": Check(
        "LabelSchema are spread as in the data of the promoted model.",
        "Find out what changed in the source. If the world did, promote this data's profile with the new model.",
    ),
    "promoted_lengths": Check(
        "Texts are as long as in the data of the promoted model.",
        "Find out what changed in the source. If the world did, promote this data's profile with the new model.",
    ),
    "promoted_vocabulary": Check(
        "Texts use the words of the data of the promoted model.",
        "Find out what changed in the source: another language, another product, another export.",
    ),
}
"""By the key under ``validate:``, in the order of the report."""
