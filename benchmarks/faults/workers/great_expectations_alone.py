"""What a user gets from Great Expectations alone.

The expectations on the columns of the files are those that a careful user writes.

The user knows the classes, takes limits of lengths and the distribution of labels
from train, and compares test with the rows of train. Rows are those of ``unexpected_index_list``.
"""

import math
from pathlib import Path
from typing import Any

import great_expectations as gx
import great_expectations.expectations as gxe
import pandas as pd
from protocol import Findings, read_frames, serve

MOJIBAKE = "\u00c3[\u0080-\u00bf]|\u00e2\u20ac|\ufffd"
CONTROL = "[\\x00-\\x08\\x0b\\x0c\\x0e-\\x1f]"
FENCE = 3.0
"""Interquartile ranges beyond the quartiles of train, on a log scale: as in the project."""


def look(folder: Path, case: dict[str, Any]) -> Findings:
    """Validate each split with one suite."""
    frames = {split: _derived(frame, case) for split, frame in read_frames(folder).items()}
    context = gx.get_context(mode="ephemeral")
    batches = (
        context.data_sources.add_pandas("files")
        .add_dataframe_asset("split")
        .add_batch_definition_whole_dataframe("all")
    )
    findings = Findings()
    for split, frame in frames.items():
        suite = gx.ExpectationSuite(split, expectations=list(_expectations(split, frames["train"], case)))
        result = batches.get_batch({"dataframe": frame}).validate(
            suite, result_format={"result_format": "COMPLETE"}
        )
        for one in result.results:
            if not one.success:
                name = one.expectation_config.meta["finds"]
                findings.alarms.append(name)
                rows = one.result.get("unexpected_index_list") or ()
                findings.rows.setdefault(name, []).extend((split, int(row)) for row in rows)
    findings.alarms = sorted(set(findings.alarms))
    return findings


def _derived(frame: pd.DataFrame, case: dict[str, Any]) -> pd.DataFrame:
    """Add the columns that expectations need: the whole row's text, with its label, and its length."""
    text = frame[case["texts"]].agg("\n".join, axis=1)
    return frame.assign(text=text, labelled=text + "\n" + frame[case["label"]], length=text.str.len())


def _expectations(split: str, train: pd.DataFrame, case: dict[str, Any]) -> Any:
    low, high = _limits(train["length"])
    distribution = train[case["label"]].value_counts(normalize=True)
    yield gxe.ExpectColumnValuesToBeUnique(column="labelled", meta={"finds": "unique rows"})
    yield gxe.ExpectColumnValuesToBeUnique(column="text", meta={"finds": "unique texts"})
    yield gxe.ExpectColumnValuesToBeInSet(
        column=case["label"], value_set=case["classes"], meta={"finds": "label set"}
    )
    yield gxe.ExpectColumnValuesToNotMatchRegex(column="text", regex=MOJIBAKE, meta={"finds": "encoding"})
    yield gxe.ExpectColumnValuesToNotMatchRegex(
        column="text", regex=CONTROL, meta={"finds": "control characters"}
    )
    yield gxe.ExpectColumnValuesToMatchRegex(column="text", regex=r"\w", meta={"finds": "visible text"})
    yield gxe.ExpectColumnValuesToBeBetween(
        column="length", min_value=low, max_value=high, mostly=0.99, meta={"finds": "lengths"}
    )
    yield gxe.ExpectColumnKLDivergenceToBeLessThan(
        column=case["label"],
        partition_object={"values": distribution.index.tolist(), "weights": distribution.tolist()},
        threshold=0.1,
        tail_weight_holdout=1e-6,
        meta={"finds": "label divergence"},
    )
    if split != "train":
        yield gxe.ExpectColumnValuesToNotBeInSet(
            column="text", value_set=train["text"].tolist(), meta={"finds": "not in train"}
        )
        mean = float(train["length"].mean())
        yield gxe.ExpectColumnMeanToBeBetween(
            column="length", min_value=0.8 * mean, max_value=1.2 * mean, meta={"finds": "length divergence"}
        )


def _limits(lengths: pd.Series) -> tuple[float, float]:
    lower, upper = (math.log1p(lengths.quantile(level)) for level in (0.25, 0.75))
    reach = FENCE * max(upper - lower, math.log(1.5))
    return max(math.expm1(lower - reach), 0.0), math.expm1(upper + reach)


if __name__ == "__main__":
    serve(look)
