"""What a user gets from deepchecks' checks of texts that need no model and no download.

They are about integrity, and compare test with train.

Conditions are those of deepchecks' suites. Its checks name few rows, in tables for people; the rows here are
those of their results.
"""

from pathlib import Path
from typing import Any

import pandas as pd
from deepchecks.nlp import TextData
from deepchecks.nlp import checks as nlp
from deepchecks.nlp.utils import text_properties
from protocol import Findings, read_frames, serve

PROPERTIES = {
    "Text Length": text_properties.text_length,
    "Average Word Length": text_properties.average_word_length,
    "Max Word Length": text_properties.max_word_length,
    "% Special Characters": text_properties.percentage_special_characters,
    "% Punctuation": text_properties.percentage_punctuation,
}
"""Properties of a text that need no model.

``calculate_builtin_properties`` always loads fastText's model of languages.
"""

EXACT = {"n_samples": 10**9, "remove_stopwords": False}
"""Compares all texts with their stop words: for each text, deepchecks would download the list of NLTK."""


def look(folder: Path, case: dict[str, Any]) -> Findings:
    """Run the checks on train, and on each later split against train."""
    data = {split: _text_data(frame, case, split) for split, frame in read_frames(folder).items()}
    findings = Findings()
    for split, one in data.items():
        for name, check in _integrity().items():
            _note(findings, name, check.run(one), split)
        for name, check in _against_train().items() if split != "train" else ():
            _note(findings, name, check.run(data["train"], one), split)
    findings.alarms = sorted(set(findings.alarms))
    return findings


def _integrity() -> dict[str, Any]:
    return {
        "text duplicates": nlp.TextDuplicates(**EXACT).add_condition_ratio_less_or_equal(),
        "conflicting labels": (
            nlp.ConflictingLabels(**EXACT).add_condition_ratio_of_conflicting_labels_less_or_equal()
        ),
        "special characters": (
            nlp.SpecialCharacters(
                n_samples=10**9
            ).add_condition_samples_ratio_w_special_characters_less_or_equal()
        ),
        "property outliers": (
            nlp.TextPropertyOutliers(n_samples=10**9).add_condition_outlier_ratio_less_or_equal()
        ),
        "property label correlation": (
            nlp.PropertyLabelCorrelation(n_samples=10**9).add_condition_property_pps_less_than()
        ),
    }


def _against_train() -> dict[str, Any]:
    return {
        "train-test mix": nlp.TrainTestSamplesMix(**EXACT).add_condition_duplicates_ratio_less_or_equal(),
        "label drift": nlp.LabelDrift().add_condition_drift_score_less_than(),
        "property drift": nlp.PropertyDrift().add_condition_drift_score_less_than(),
    }


def _text_data(frame: Any, case: dict[str, Any], split: str) -> TextData:
    texts = frame[case["texts"]].agg("\n".join, axis=1).tolist()
    data = TextData(
        raw_text=texts, label=frame[case["label"]].tolist(), task_type="text_classification", name=split
    )
    properties = {name: list(map(measure, texts)) for name, measure in PROPERTIES.items()}
    data.set_properties(pd.DataFrame(properties), categorical_properties=[])
    return data


def _note(findings: Findings, name: str, result: Any, split: str) -> None:
    if any(not condition.is_pass() for condition in result.conditions_results):
        findings.alarms.append(name)
    findings.rows.setdefault(name, []).extend((split, number) for number in sorted(_numbers(result.value)))


def _numbers(value: Any) -> set[int]:
    """Return the rows in the value of a result.

    They are an index level of a table, or lists per property or character.
    """
    numbers: set[int] = set()
    for part in value.values() if isinstance(value, dict) else ():
        if isinstance(part, pd.DataFrame) and "Sample ID" in part.index.names:
            of_split = (
                part[part.index.get_level_values("Dataset") == "test"]
                if "Dataset" in part.index.names
                else part
            )
            numbers.update(of_split.index.get_level_values("Sample ID"))
        elif isinstance(part, dict):
            lists = (
                [part["indices"]]
                if "indices" in part
                else [one for one in part.values() if isinstance(one, list)]
            )
            numbers.update(number for one in lists for number in one)
    return {int(number) for number in numbers}


if __name__ == "__main__":
    serve(look)
