"""Measure what the recipe of ``tuneline init`` is worth beside simple models, on samples of a data set.

For each number of rows and each seed, a clone of this repository gets that many rows of ``train.csv``, an
eighth as many for validation, and all rows of ``test.csv``; then ``tuneline init`` and ``dvc repro
evaluate``. Where the recipe leaves the head to validation, fine-tuning with the same values (``model.head:
null``) is measured as well. Prints a table with the mean and range over the seeds, and the seconds of
``train``.

``python -m benchmarks.recipes FOLDER --checkpoint models/source/NAME --rows 300 1000 --seeds 0 1 2``, with
both files in FOLDER, and the checkpoint in ``models/source/``. The other options are those of ``tuneline
init``, such as ``--text first --text second --label same``.

``--trainer`` trains the same tokens with ``transformers.Trainer`` as well: three epochs in batches of 16,
once at 5e-5 and once at 1e-4, the other arguments left at their defaults. ``--no-tuned`` leaves out
fine-tuning where the recipe leaves the head to validation. For regressions, the metric is Pearson's r.
"""

import argparse
import csv
import json
import os
import shutil
import statistics
import subprocess
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from tuneline.core.tables import LABELS
from tuneline.core.yaml_files import read_yaml
from tuneline.params.params_file import changed, write
from tuneline.paths import PARAMS, TOKENIZED

ROOT = Path(__file__).resolve().parents[1]
COLUMNS = {
    "majority": "majority_{}",
    "TF-IDF": "tfidf_{}",
    "frozen": "frozen_{}",
    "cosine": "cosine_{}",
    "Trainer, 5e-05": "",
    "Trainer, 0.0001": "",
    "recipe": "{}",
    "fine-tuned": "{}",
}
"""Column of the table, and its metric in ``metrics/evaluate.json``; the Trainer's is computed here."""
TRAINER_RATES = (5e-5, 1e-4)
TRAINER_EPOCHS = 3
Row = dict[str, float]


def prepare(folder: Path, rows: int, seed: int, target: Path) -> None:
    """Write the three files of one sample."""
    with (folder / "train.csv").open(newline="", encoding="utf-8") as file:
        head, *train = csv.reader(file)
    drawn = np.random.default_rng(seed).permutation(len(train))
    rows = min(rows, len(train) * 8 // 9)
    target.mkdir()
    for name, chosen in {"train": drawn[:rows], "validation": drawn[rows : rows + rows // 8]}.items():
        with (target / f"{name}.csv").open("w", newline="", encoding="utf-8") as file:
            csv.writer(file).writerows([head, *(train[row] for row in chosen)])
    shutil.copy(folder / "test.csv", target)


def run(project: Path, *command: str) -> None:
    """Run a command with the code of the project; its output is shown if it fails."""
    environment = {**os.environ, "PYTHONPATH": str(project)}
    done = subprocess.run(command, cwd=project, env=environment, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"{' '.join(command)} failed:\n{done.stdout[-2000:]}{done.stderr[-2000:]}")


def set_param(project: Path, key: str, value: float | None) -> None:
    """Set a value in ``params.yaml``."""
    path = project / PARAMS
    write(path, changed(path, {key: value}))


def measure(arguments: argparse.Namespace, rows: int, seed: int, options: Sequence[str]) -> Row:
    """Return the metric of every model on the test file, and the seconds of ``train``."""
    checkpoint = arguments.checkpoint
    with tempfile.TemporaryDirectory() as scratch:
        project = Path(scratch) / "project"
        run(ROOT, "git", "clone", "--quiet", str(ROOT), str(project))
        shutil.copytree(ROOT / checkpoint, project / checkpoint)
        prepare(arguments.folder, rows, seed, Path(scratch) / "sample")
        run(
            project,
            "tuneline",
            "init",
            f"{scratch}/sample",
            "--checkpoint",
            checkpoint,
            "--yes",
            *options,
        )
        set_param(project, "seed", seed)
        set_param(
            project, "validate.leakage", 1.0
        )  # STS-B has texts twice, and a sample shall not stop for them
        results = reproduce(project, "recipe")
        if arguments.trainer:
            for rate in TRAINER_RATES:
                results[f"Trainer, {rate:g}"] = train_with_trainer(project, checkpoint, rate, seed)
        if arguments.tuned and read_yaml(project / PARAMS)["model"]["head"] is not None:
            set_param(project, "model.head", None)
            tuned = reproduce(project, "fine-tuned")
            results |= {key: value for key, value in tuned.items() if key not in results}
        print(f"{rows:,} rows, seed {seed}: {json.dumps(results)}", flush=True)
        return results


def train_with_trainer(project: Path, checkpoint: str, rate: float, seed: int) -> float:
    """Train the tokenized rows of a project with ``transformers.Trainer``.

    Return accuracy or Pearson's r on its test split.
    """
    import torch
    from datasets import load_dataset
    from transformers import (
        AutoModelForSequenceClassification,
        AutoTokenizer,
        DataCollatorWithPadding,
        Trainer,
        TrainingArguments,
        set_seed,
    )

    files = {split: str(project / TOKENIZED / f"{split}.parquet") for split in ("train", "test")}
    with tempfile.TemporaryDirectory() as scratch:
        splits = load_dataset("parquet", data_files=files, cache_dir=scratch)
        labels = np.asarray(splits["test"][LABELS])
        regression = labels.dtype.kind == "f"
        outputs = 1 if regression else len(splits["train"].unique(LABELS))

        set_seed(seed)
        model = AutoModelForSequenceClassification.from_pretrained(ROOT / checkpoint, num_labels=outputs)
        tokenizer = AutoTokenizer.from_pretrained(ROOT / checkpoint)
        arguments = TrainingArguments(
            output_dir=scratch,
            learning_rate=rate,
            num_train_epochs=TRAINER_EPOCHS,
            per_device_train_batch_size=16,
            per_device_eval_batch_size=64,
            seed=seed,
            use_cpu=not torch.cuda.is_available(),
            bf16=torch.cuda.is_available() or torch.cpu._is_amx_tile_supported(),
            report_to=[],
            save_strategy="no",
            disable_tqdm=True,
        )
        trainer = Trainer(
            model, arguments, data_collator=DataCollatorWithPadding(tokenizer), train_dataset=splits["train"]
        )
        trainer.train()
        logits = np.asarray(trainer.predict(splits["test"]).predictions)
    if regression:
        return float(np.corrcoef(logits[:, 0], labels)[0, 1])
    return float(np.mean(logits.argmax(axis=1) == labels))


def reproduce(project: Path, model: str) -> Row:
    """Run the pipeline up to ``evaluate``; return the metric of every model, by its column."""
    started = time.monotonic()
    run(project, "dvc", "repro", "evaluate")
    metrics = json.loads((project / "metrics/evaluate.json").read_text())
    name = "accuracy" if "accuracy" in metrics else "pearson"
    columns = {
        column: key
        for column, key in COLUMNS.items()
        if column in {"majority", "TF-IDF", "frozen", "cosine", model}
    }
    results = {
        column: metrics[key.format(name)] for column, key in columns.items() if key.format(name) in metrics
    }
    timing = json.loads((project / "reports/timing/train.json").read_text())
    results[f"seconds ({model})"] = timing["seconds"]
    results[f"seconds ({model}, all stages)"] = round(time.monotonic() - started)
    return results


def main() -> None:
    """Measure, and print the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folder", type=Path)
    parser.add_argument("--checkpoint", required=True)
    parser.add_argument("--rows", type=int, nargs="+", default=[300, 1000])
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2], help="of the samples")
    parser.add_argument("--trainer", action="store_true", help="train with transformers.Trainer as well")
    parser.add_argument(
        "--no-tuned",
        dest="tuned",
        action="store_false",
        help="do not fine-tune where validation chooses the head",
    )
    arguments, options = parser.parse_known_args()
    for rows in arguments.rows:
        results = [measure(arguments, rows, seed, options) for seed in arguments.seeds]
        print(table_row(f"{arguments.folder.name}, {rows:,}", results), flush=True)


def table_row(title: str, results: Sequence[Row]) -> str:
    """Return a line of a Markdown table: mean and range of every column over the samples."""
    cells = [title]
    for key in (*COLUMNS, "seconds (recipe)", "seconds (fine-tuned)"):
        values = [result[key] for result in results if key in result]
        if values:
            cells.append(f"{key} {statistics.mean(values):.3f} ({min(values):.3f} to {max(values):.3f})")
    return f"| {' | '.join(cells)} |"


if __name__ == "__main__":
    main()
