"""The rivals: models that other tools give for the same rows.

Each is a function from a sample and the folder of the checkpoint to a ``Model``. ``predictions`` makes
predictions of its outputs, the same way for all rivals.
"""

import importlib
import tempfile
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.quality.data_sets import Sample, SkippedError, Split
from tuneline.core.params.train import ThresholdParams
from tuneline.judge.metrics.scores import compute_metric
from tuneline.judge.metrics.table import METRIC_TABLE
from tuneline.model.linear.linear_model import LinearModel, pair_features
from tuneline.model.linear.thresholds import choose_thresholds
from tuneline.model.tasks import Classification, Multilabel, Task
from tuneline.model.tasks.probabilities import SMALLEST, sigmoid
from tuneline.model.tasks.task import Labels

MAX_LENGTH = 128
RARE = 0.2
"""Share of an even share of rows below which a class is rare."""
NEVER = -1e4
"""Logit of a class that train does not have."""
RATES = (2e-5, 5e-5, 1e-4)
BATCH = 16
SETFIT_ITERATIONS = 20
"""Pairs of texts for each row and kind of pair (Tunstall et al. 2022, arXiv 2209.11055)."""
SETFIT_STEPS = 1_000
"""Most steps of setfit: 1,000 rows would take 2,500."""
SETFIT_ROWS = 1_000

Outputs = NDArray[Any]
"""Logits, or numbers, of shape ``(rows, outputs)``."""
Model = Callable[[Split], Outputs]


def predictions(sample: Sample, model: Model, split: Split) -> Labels:
    """Return the predictions of a model; of several labels, with thresholds chosen on validation."""
    outputs = np.asarray(model(split), np.float64)
    if isinstance(sample.task, Classification):
        return outputs.argmax(axis=1)
    if not isinstance(sample.task, Multilabel):
        return outputs[:, 0]
    logits = np.asarray(model(sample.validation), np.float64)
    thresholds = choose_thresholds(logits, sample.validation.labels == 1, ThresholdParams())
    sets: Labels = (sigmoid(outputs) > thresholds).astype(np.int8)
    return sets


def of_all_classes(task: Task, classes: NDArray[Any], outputs: Outputs) -> Outputs:
    """Return outputs for all classes, from those for the classes that train has."""
    every = np.full((len(outputs), task.outputs), NEVER)
    every[:, classes] = outputs
    return every


def tfidf(sample: Sample, _checkpoint: Path) -> Model:
    """Fit TF-IDF of words and word pairs with a logistic or ridge regression."""
    from scipy import sparse
    from sklearn.feature_extraction.text import TfidfVectorizer
    from sklearn.linear_model import LogisticRegression, Ridge
    from sklearn.multiclass import OneVsRestClassifier

    vectorizer = TfidfVectorizer(ngram_range=(1, 2), sublinear_tf=True, min_df=2)
    vectorizer.fit([text for column in sample.train.columns for text in column])

    def features(split: Split) -> Any:
        vectors = [vectorizer.transform(column) for column in split.columns]
        if len(vectors) == 1:
            return vectors[0]
        first, second = vectors
        return sparse.hstack([first.multiply(second), abs(first - second)], "csr")

    rows = features(sample.train)
    labels = sample.train.labels
    if isinstance(sample.task, Classification):
        counts = np.bincount(labels, minlength=sample.task.outputs)
        weights = "balanced" if counts.min() < RARE * counts.mean() else None
        classes = LogisticRegression(C=10, max_iter=1_000, class_weight=weights).fit(rows, labels)
        return lambda split: of_all_classes(
            sample.task, classes.classes_, classes.predict_log_proba(features(split))
        )
    if isinstance(sample.task, Multilabel):
        sets = OneVsRestClassifier(LogisticRegression(C=10, max_iter=1_000)).fit(rows, labels)
        return lambda split: sets.decision_function(features(split))
    numbers = Ridge().fit(rows, labels)
    return lambda split: numbers.predict(features(split))[:, None]


def frozen(sample: Sample, checkpoint: Path) -> Model:
    """Fit the linear model that ``model.head: frozen`` publishes, on vectors of the checkpoint."""
    import torch
    from transformers import AutoModel, AutoTokenizer

    from tuneline.model.linear.pooled_classifier import pooled
    from tuneline.model.tokens.architectures import pooling_of

    encoder = AutoModel.from_pretrained(checkpoint).eval()
    pooling = pooling_of(checkpoint)
    tokenizer = AutoTokenizer.from_pretrained(checkpoint)
    options = {"truncation": True, "max_length": MAX_LENGTH, "padding": True, "return_tensors": "pt"}

    def vectors(texts: list[str]) -> NDArray[np.float32]:
        parts = []
        for start in range(0, len(texts), BATCH):
            with torch.inference_mode():
                tokens = tokenizer(texts[start : start + BATCH], **options)
                parts.append(pooled(encoder, pooling, **tokens).numpy())
        return np.concatenate(parts)

    def features(split: Split) -> NDArray[np.float32]:
        columns = [vectors(column) for column in split.columns]
        return np.hstack(pair_features(*columns)) if sample.is_pair else columns[0]

    rows = features(sample.train)
    validation = features(sample.validation), sample.validation.labels
    linear = LinearModel.fit(
        (rows, sample.train.labels), validation, sample.task, cosine_last=sample.is_pair, predicts=False
    )
    weight, bias = linear.weights(rows.shape[1], sample.task)
    return lambda split: features(split) @ weight.T + bias


def trainer(epochs: int, sample: Sample, checkpoint: Path) -> Model:
    """Train with ``transformers.Trainer``; the best of three rates by validation."""

    def score(model: Model) -> float:
        predicted = predictions(sample, model, sample.validation)
        return compute_metric(METRIC_TABLE[sample.metric], sample.validation.labels, predicted)

    return max((trained(sample, checkpoint, epochs, rate) for rate in RATES), key=score)


def trained(sample: Sample, checkpoint: Path, epochs: int, rate: float) -> Model:
    """Train with one rate, and the other arguments at their defaults."""
    import torch
    from datasets import Dataset
    from transformers import (
        AutoModelForSequenceClassification,
        AutoTokenizer,
        DataCollatorWithPadding,
        PrinterCallback,
        Trainer,
        TrainingArguments,
        set_seed,
    )

    tokenizer = AutoTokenizer.from_pretrained(checkpoint)
    several = isinstance(sample.task, Multilabel)

    def tokenized(split: Split) -> Dataset:
        tokens = dict(tokenizer(*split.columns, truncation=True, max_length=MAX_LENGTH))
        labels = split.labels.astype(np.float32) if several else split.labels  # for its loss
        return Dataset.from_dict({**tokens, "labels": labels.tolist()})

    set_seed(sample.seed)
    kind = {"problem_type": "multi_label_classification"} if several else {}
    model = AutoModelForSequenceClassification.from_pretrained(
        checkpoint, num_labels=sample.task.outputs, **kind
    )
    with tempfile.TemporaryDirectory() as scratch:
        arguments = TrainingArguments(
            output_dir=scratch,
            learning_rate=rate,
            num_train_epochs=epochs,
            per_device_train_batch_size=BATCH,
            per_device_eval_batch_size=64,
            seed=sample.seed,
            use_cpu=not torch.cuda.is_available(),
            bf16=torch.cuda.is_available() or torch.cpu._is_amx_tile_supported(),
            report_to=[],
            save_strategy="no",
            logging_strategy="no",
            disable_tqdm=True,
        )
        collator = DataCollatorWithPadding(tokenizer)
        run = Trainer(model, arguments, data_collator=collator, train_dataset=tokenized(sample.train))
        run.remove_callback(PrinterCallback)
        run.train()
    return lambda split: run.predict(tokenized(split)).predictions


def setfit(sample: Sample, checkpoint: Path) -> Model:
    """Fine-tune the encoder by pairs of texts, and fit a logistic regression (setfit)."""
    # setfit takes one text, and classes; many rows are not what it is for
    if sample.is_pair or not sample.task.has_classes:
        raise SkippedError("setfit learns classes of single texts")
    if len(sample.train.labels) > SETFIT_ROWS:
        raise SkippedError(f"setfit is for few rows: at most {SETFIT_ROWS:,} here")
    try:
        library: Any = importlib.import_module("setfit")  # a peer, and no dependency of this project
    except ImportError:
        raise SkippedError("setfit is not installed") from None
    from datasets import Dataset

    several = isinstance(sample.task, Multilabel)
    rows = {"text": sample.train.columns[0], "label": sample.train.labels.tolist()}
    model = library.SetFitModel.from_pretrained(
        str(checkpoint), multi_target_strategy="one-vs-rest" if several else None
    )
    with tempfile.TemporaryDirectory() as scratch:
        arguments = library.TrainingArguments(
            output_dir=scratch,
            batch_size=BATCH,
            num_iterations=SETFIT_ITERATIONS,
            max_steps=min(SETFIT_STEPS, 2 * SETFIT_ITERATIONS * len(rows["text"]) // BATCH),
            seed=sample.seed,
            report_to="none",
            save_strategy="no",
            show_progress_bar=False,
        )
        library.Trainer(model=model, args=arguments, train_dataset=Dataset.from_dict(rows)).train()

    def logits(split: Split) -> Outputs:
        shares = np.asarray(model.predict_proba(split.columns[0], as_numpy=True), np.float64)
        shares = np.clip(shares, SMALLEST, 1 - SMALLEST)
        if several:
            return np.log(shares / (1 - shares))
        return of_all_classes(sample.task, model.model_head.classes_, np.log(shares))

    return logits


FROZEN = "frozen"
RIVALS: dict[str, Callable[[Sample, Path], Model]] = {
    "tfidf": tfidf,
    FROZEN: frozen,
    "trainer-3": partial(trainer, 3),
    "trainer-10": partial(trainer, 10),
    "setfit": setfit,
}
"""Rivals by name."""
