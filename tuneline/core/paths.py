"""Paths of the project's files, relative to its root.

They are part of the contract in docs/architecture.md and appear in dvc.yaml.
"""

from pathlib import Path


def of_repository(path: Path) -> Path:
    """Return a path of the repository, also where this process works in a tree in its ``.dvc/tmp/``.

    ``dvc exp run --temp`` and the flows make such trees.
    """
    for folder in reversed(Path.cwd().parents):
        if folder.parts[-2:] == (".dvc", "tmp"):
            return folder.parent.parent / path
    return path


PARAMS = Path("params.yaml")
PIPELINE = Path("dvc.yaml")
ENGINE = Path("engine.yaml")
"""Version of the installed engine that a project was made with, and hashes of what stages run of it."""
PROJECT = Path("project")
"""Python files of the user: losses and metrics that parameters name."""

SOURCE = Path("data/source")
CORRECTIONS = Path("data/corrections")
"""Labels that people changed and rows that are left out, in git. The stage ``download`` applies them."""
REFERENCE_PROFILE = Path("data/reference/profile.json")
RAW = Path("data/raw")
TOKENIZED = Path("data/tokenized")
TOKENIZER = TOKENIZED / "tokenizer"
BASE_SOURCE = Path("models/source")
BASE = Path("models/base")
BASE_RECORD = BASE / "source.json"
BASE_MODEL = BASE / "model"
BASE_TOKENIZER = BASE / "tokenizer"
CHECKPOINTS = of_repository(Path("checkpoints"))
"""One folder for all trees of a repository: whichever tree trains the same model again resumes."""
CLASSIFIER = Path("models/classifier")
CANDIDATES = Path("models/candidates")
ONNX = Path("models/onnx")

SITE_CACHE = Path(".dvc/tmp/site")
"""DVC's site cache.

DVC unpickles it: nobody else may write there. By default it is a folder that all users of the machine may
write to.
"""

METRICS = Path("metrics")
PLOTS = Path("plots")
REPORTS = Path("reports")
CHECKS = REPORTS / "checks"
CLUSTERS = CHECKS / "clusters"
"""The cluster of each row, a file for each split: rows of a cluster are not independent of each other."""
FAILING_ROWS = CHECKS / "rows"
"""All rows that violate a data check: one Parquet file per check."""
COMPARISON = REPORTS / "compare"
EVALUATION = REPORTS / "evaluation.json"
"""All metrics of the reported split."""
PREDICTIONS = REPORTS / "predictions.parquet"
VALIDATION_PREDICTIONS = REPORTS / "validation.parquet"
"""Predictions of the kept weights for the validation split, in the form of the file above."""
BASELINES = REPORTS / "baselines"
"""Predictions of the simple models, one column each: ``SPLIT.parquet``."""
DOWNLOAD = REPORTS / "download"
"""What stage ``download`` left out: ``skipped.parquet``."""
GROUPS = DOWNLOAD / "groups"
"""The group of each row, by ``data.split.by``, a file for each split that is divided by it."""
TIMING = REPORTS / "timing"
PROVENANCE = REPORTS / "provenance"

SPLITS = ("train", "validation", "test")


def split_file(folder: Path, split: str) -> Path:
    """Return the path of the Parquet file of ``split`` in ``folder``."""
    return folder / f"{split}.parquet"
