"""Measurements that all methods share: model, throughput, quality, memory."""

import argparse
import resource
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch
from transformers import AutoModelForSequenceClassification, BertConfig, PreTrainedModel

from benchmarks.training_ways.data import LABELS, VOCABULARY
from tuneline.judge.evaluation.scoring import reported_scores
from tuneline.judge.metrics.predictions import Predictions
from tuneline.model.tokens.tokenized_splits import TokenizedSplit

MATMULS = ("mm", "bmm", "linear", "scaled_dot_product", "gemm", "attention")


def new_model(options: argparse.Namespace) -> PreTrainedModel:
    """Return a model whose new weights depend on the seed only.

    With a checkpoint only the head is new.
    """
    torch.manual_seed(options.seed)
    auto: Any = AutoModelForSequenceClassification
    if options.checkpoint is not None:
        loaded: PreTrainedModel = auto.from_pretrained(
            options.checkpoint, num_labels=LABELS.outputs, use_safetensors=True
        )
        return loaded
    sizes = model_config(options.layers, options.hidden)
    config = BertConfig(**sizes, vocab_size=VOCABULARY, id2label=dict(enumerate(LABELS.output_names)))
    model: PreTrainedModel = auto.from_config(config)
    return model


def model_config(layers: int, hidden: int) -> dict[str, Any]:
    """Return the shapes of the model, with attention heads of width 64."""
    return {
        "hidden_size": hidden,
        "num_hidden_layers": layers,
        "num_attention_heads": max(hidden // 64, 1),
        "intermediate_size": 4 * hidden,
        "max_position_embeddings": 128,
    }


def peak_mb() -> float:
    """Return the peak resident memory so far, in MB (``ru_maxrss`` is in KB on Linux)."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


class Meter:
    """Count the rows and tokens of training steps, and measure their time.

    Args:
        clock: ``wall``, or ``cpu`` for the CPU time of all threads, which is more reliable on a busy machine.

    Attributes:
        seconds: Time of all steps after the first ``WARMUP``.
    """

    WARMUP = 5

    def __init__(self, clock: str) -> None:
        self._now = time.process_time if clock == "cpu" else time.perf_counter
        self.samples = self.tokens = self.positions = self.steps = 0
        self.seconds = 0.0
        self._last: float | None = None

    def batch(self, attention_mask: torch.Tensor) -> None:
        """Count a micro-batch."""
        if self.steps >= self.WARMUP:
            self.samples += len(attention_mask)
            self.tokens += int(attention_mask.sum())
            self.positions += attention_mask.numel()

    def step(self) -> None:
        """Record the end of an optimizer step."""
        if torch.cuda.is_available():
            torch.cuda.synchronize()
        now = self._now()
        if self._last is not None and self.steps >= self.WARMUP:
            self.seconds += now - self._last
        self.steps += 1
        self._last = now

    def pause(self) -> None:
        """Exclude the time since the last step (an evaluation, a checkpoint)."""
        self._last = self._now()

    def rates(self) -> dict[str, float]:
        """Return the rates of the measured steps, and the fraction of padding.

        Raises:
            SystemExit: No step was measured.
        """
        if not self.seconds:
            raise SystemExit(
                f"The first {self.WARMUP} steps are not measured: ask for more of them (--steps, --rows,"
                " --epochs)."
            )
        return {
            "samples_per_second": self.samples / self.seconds,
            "tokens_per_second": self.tokens / self.seconds,
            "padding_share": 1 - self.tokens / self.positions,
        }


def score(model: torch.nn.Module, split: TokenizedSplit) -> dict[str, float]:
    """Return loss, accuracy and F1 on a split."""
    model.eval()
    device = next(model.parameters()).device
    logits = []
    with torch.no_grad():
        for start in range(0, len(split), 64):
            batch = split.pad(np.arange(start, min(start + 64, len(split))), 0)
            logits.append(
                model(**{name: torch.from_numpy(values).to(device) for name, values in batch.items()})
                .logits.float()
                .cpu()
            )
    outputs = torch.cat(logits).numpy()
    predictions = Predictions.of_logits(split.labels, outputs, split.task)
    scores = reported_scores(predictions)
    return {
        "loss": predictions.loss(),
        "accuracy": scores["accuracy"],
        "f1": scores["f1"],
    }


def matmul_share(step: Callable[[], object], repetitions: int = 5) -> float:
    """Return the fraction of the operators' own time in matrix products and attention.

    No training loop can avoid these.
    """
    step()
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as profile:
        for _ in range(repetitions):
            step()
    events = profile.key_averages()
    whole = sum(event.self_cpu_time_total for event in events)
    products = sum(
        event.self_cpu_time_total for event in events if any(name in event.key.lower() for name in MATMULS)
    )
    return products / whole


@contextmanager
def timed() -> Iterator[list[float]]:
    """Yield a list that receives the seconds of the block at its end."""
    seconds: list[float] = []
    started = time.perf_counter()
    yield seconds
    seconds.append(time.perf_counter() - started)
