"""What a user gets from cleanlab's Datalab for all splits together.

It finds label issues, near-duplicates, outliers, imbalance and drift.

Probabilities are out-of-fold predictions of TF-IDF with logistic regression, features are 100 dimensions of
the same TF-IDF, as in cleanlab's tutorials for text without a pretrained model. Thresholds are Datalab's. Its
issues have no limits: an alarm is any row of an issue, or an issue of the whole data set.
"""

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from cleanlab import Datalab
from protocol import Findings, read_frames, serve
from sklearn.decomposition import TruncatedSVD
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import cross_val_predict


def look(folder: Path, case: dict[str, Any]) -> Findings:
    """Join the splits and let Datalab find all issues that need no other input."""
    frames = read_frames(folder)
    frame = pd.concat(
        [part.assign(split=split, row=range(len(part))) for split, part in frames.items()], ignore_index=True
    )
    matrix = TfidfVectorizer(min_df=2).fit_transform(frame[case["texts"]].agg("\n".join, axis=1))
    labels = frame[case["label"]]
    folds = min(5, int(labels.value_counts().min()))
    if (
        folds < 2
    ):  # a class with one row: cross-validation of scikit-learn needs two, so Datalab has no probabilities
        probabilities = None
    else:
        probabilities = cross_val_predict(
            LogisticRegression(max_iter=300), matrix, labels, cv=folds, method="predict_proba"
        )
    lab = Datalab(
        {"text": frame[case["texts"][0]].tolist(), "label": labels.tolist()}, label_name="label", verbosity=0
    )
    lab.find_issues(
        features=TruncatedSVD(100, random_state=0).fit_transform(matrix), pred_probs=probabilities
    )
    findings = Findings()
    issues = lab.get_issues()
    for name in lab.get_issue_summary()["issue_type"]:
        rows = np.flatnonzero(issues[f"is_{name}_issue"])
        rows = rows[np.argsort(issues[f"{name}_score"].to_numpy()[rows], kind="stable")]  # the worst first
        if len(rows):
            findings.alarms.append(name)
            findings.rows[name] = list(
                zip(frame["split"].iloc[rows], frame["row"].iloc[rows].tolist(), strict=True)
            )
    return findings


if __name__ == "__main__":
    serve(look)
