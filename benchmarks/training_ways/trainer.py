"""The usual alternative: the Trainer of transformers, with rows grouped by length."""

import argparse
from pathlib import Path
from typing import Any

import datasets
import torch
from transformers import DataCollatorWithPadding, Trainer, TrainerCallback, TrainingArguments

from benchmarks.training_ways.data import TOKENIZER
from benchmarks.training_ways.measuring import Meter, matmul_share, new_model, score, timed
from tuneline.core.stage.tables import SplitReader
from tuneline.model.tokens.tokenized_splits import TokenizedSplit


def collator() -> Any:
    """Return a collator that pads a batch to its longest row."""
    from transformers import AutoTokenizer, BertTokenizerFast

    tokenizer = (
        AutoTokenizer.from_pretrained(TOKENIZER)
        if TOKENIZER.is_dir()
        else BertTokenizerFast(vocab={"[PAD]": 0, "[UNK]": 1})
    )
    return DataCollatorWithPadding(tokenizer)


def split_dataset(options: argparse.Namespace, split: str) -> datasets.Dataset:
    """Return a split as a ``datasets.Dataset``."""
    return datasets.Dataset.from_parquet(
        str(options.folder / f"{split}.parquet"), cache_dir=str(options.folder / "cache")
    )


class _Clock(TrainerCallback):
    def __init__(self, meter: Meter) -> None:
        self.meter = meter

    def on_step_end(self, *_: Any, **__: Any) -> None:
        self.meter.step()

    def on_save(self, *_: Any, **__: Any) -> None:
        self.meter.pause()


class _CountingTrainer(Trainer):
    meter: Meter

    def training_step(self, model: Any, inputs: Any, *rest: Any) -> torch.Tensor:
        self.meter.batch(inputs["attention_mask"])
        return super().training_step(model, inputs, *rest)


def trainer(options: argparse.Namespace) -> dict[str, float]:
    """Train with the Trainer, with its defaults except for the compared settings.

    Validation and a checkpoint follow each epoch.
    """
    arguments = TrainingArguments(
        output_dir=str(Path(options.folder) / "trainer"),
        per_device_train_batch_size=options.batch,
        per_device_eval_batch_size=64,
        learning_rate=options.learning_rate,
        num_train_epochs=options.epochs,
        max_steps=options.steps or -1,
        eval_strategy="epoch",
        save_strategy="epoch",
        seed=options.seed,
        use_cpu=options.device == "cpu",
        bf16=bool(options.bf16),
        report_to=[],
        train_sampling_strategy="group_by_length",
    )
    meter = Meter(options.clock)
    with timed() as seconds:
        scored = TokenizedSplit.read(SplitReader.open(options.folder, "validation", "prepare"))
        model = new_model(options)
        sets: Any = {
            "train_dataset": split_dataset(options, "train"),
            "eval_dataset": split_dataset(options, "validation"),
        }
        engine = _CountingTrainer(
            model,
            arguments,
            data_collator=collator(),
            callbacks=[_Clock(meter)],
            compute_metrics=_accuracy,
            **sets,
        )
        engine.meter = meter
        engine.train()
    measurements = {
        **meter.rates(),
        **score(model, scored),
        "seconds": seconds[0],
        "steps": engine.state.global_step,
    }
    return measurements | {"matmul_share": _profiled(engine) if options.profile else 0.0}


def _accuracy(found: Any) -> dict[str, float]:
    return {"accuracy": float((found.predictions.argmax(axis=1) == found.label_ids).mean())}


def _profiled(engine: Trainer) -> float:
    batch = next(iter(engine.get_train_dataloader()))
    engine.model.train()

    def step() -> None:
        Trainer.training_step(engine, engine.model, dict(batch), None)
        engine.optimizer.step()
        engine.model.zero_grad()

    return matmul_share(step)
