"""Conversion of the trained model to an ONNX graph with dynamic batch size and sequence length.

The graph is traced by torch's exporter, then rewritten to compute less. A rewriting is used only if the logits on a few rows stay
those of the trained model; the stage ``compare`` later checks the whole reported split.
"""

import inspect
import logging
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import numpy as np
import onnx
from numpy.typing import NDArray

from stages.export.first_token import keep_first_token
from stages.export.model_files import clean, save_model
from stages.export.padding import skip_padding
from stages.export.shapes import BATCH, SEQUENCE, ShapedGraph
from tuneline.batches import Batch
from tuneline.errors import StageError
from tuneline.files import temporary_directory
from tuneline.onnx.session import OnnxClassifier

if TYPE_CHECKING:
    import torch
    from transformers import PreTrainedModel

LOGITS = "logits"
EXAMPLE_ROWS, EXAMPLE_TOKENS = 2, 8
"""Shape of the traced example. Dimensions of 0 or 1 would be traced as constants."""
TEST_LENGTHS = (8, 5, 2)
"""Tokens of the rows on which a rewritten graph is tested."""
TOLERANCE = 1e-4
"""Absolute and relative tolerance of logits: far above rounding errors, far below the effect of reading padding."""
Rewriting = Callable[[ShapedGraph], None]
REWRITINGS: tuple[tuple[Rewriting, ...], ...] = ((keep_first_token, skip_padding), (keep_first_token,))
"""Sets of rewritings, in order of preference. The first one that keeps the logits is used, or none."""


def to_onnx(model: "PreTrainedModel", columns: Sequence[str], opset: int) -> onnx.ModelProto:
    """Convert a classifier to an ONNX graph with the output ``logits`` of shape ``(batch, outputs)``.

    Args:
        model: The classifier in evaluation mode, on the CPU.
        columns: Model inputs in the tokenized splits.
        opset: Version of the ONNX operator set.

    Returns:
        The graph with its weights, cleaned of traces of this machine. Inputs that the model ignores (``token_type_ids`` in some
        architectures) are removed.

    Raises:
        StageError: ONNX Runtime cannot run the graph that the exporter writes for this model and opset.
    """
    names = input_names(model, columns)
    traced = trace(model, names, opset)
    for rewritings in REWRITINGS:
        if same_logits(graph := rewrite(traced, rewritings), model, names):
            return graph
    plain = rewrite(traced, ())
    if onnx_logits(plain, random_batch(model)) is None:
        raise StageError(
            f"ONNX Runtime cannot run this model at opset {opset}.", "Set export.opset to another version: 20 suits most models."
        )
    return plain


def input_names(model: "PreTrainedModel", columns: Sequence[str]) -> list[str]:
    """Return the tokenized columns that the model's ``forward`` takes, in the order of its signature."""
    return [name for name in inspect.signature(model.forward).parameters if name in columns]


def trace(model: "PreTrainedModel", names: Sequence[str], opset: int) -> onnx.ModelProto:
    """Return the graph as the exporter writes it, with the shapes of all values."""
    import torch

    example = _example(model, names)
    shape = {0: torch.export.Dim(BATCH), 1: torch.export.Dim(SEQUENCE)}
    with torch.no_grad(), _quiet():
        program = torch.onnx.export(
            model,
            (),
            kwargs=example,
            dynamo=True,
            opset_version=opset,
            dynamic_shapes=dict.fromkeys(example, shape),
            input_names=list(example),
            output_names=[LOGITS],
            verbose=False,
        )
    if program is None:
        raise RuntimeError("torch.onnx.export returned nothing")
    graph: onnx.ModelProto = program.model_proto
    return graph


def rewrite(traced: onnx.ModelProto, rewritings: Sequence[Rewriting]) -> onnx.ModelProto:
    """Return a cleaned copy of a traced graph with some rewritings applied."""
    copy = onnx.ModelProto()
    copy.CopyFrom(traced)
    shaped = ShapedGraph.read(copy.graph)
    for rewriting in rewritings:
        rewriting(shaped)
    return clean(copy)


def same_logits(graph: onnx.ModelProto, model: "PreTrainedModel", names: Sequence[str]) -> bool:
    """Return True if graph and model give the same logits on random padded rows.

    Args:
        graph: The ONNX graph.
        model: The model in evaluation mode, on the CPU.
        names: The model's inputs.
    """
    import torch

    batch = random_batch(model)
    with torch.inference_mode():
        expected = model(**{name: torch.from_numpy(batch[name]) for name in names}).logits.numpy()
    logits = onnx_logits(graph, batch)
    return logits is not None and np.allclose(logits, expected, atol=TOLERANCE, rtol=TOLERANCE)


def onnx_logits(graph: onnx.ModelProto, batch: Batch) -> NDArray[np.float32] | None:
    """Run a graph with ONNX Runtime and return the logits; ``None`` if it cannot run the graph."""
    with temporary_directory() as folder:
        save_model(graph, path := folder / "model.onnx")
        try:
            return OnnxClassifier(path).logits(batch)
        except Exception:  # ONNX Runtime's errors have no common base class
            return None


def random_batch(model: "PreTrainedModel") -> Batch:
    """Return random rows of ``TEST_LENGTHS`` tokens, padded on the right."""
    mask = (np.arange(max(TEST_LENGTHS)) < np.array(TEST_LENGTHS)[:, None]).astype(np.int64)
    padding = model.config.pad_token_id or 0
    ids = np.random.default_rng(0).integers(0, model.config.vocab_size, mask.shape)
    return {"input_ids": np.where(mask == 1, ids, padding), "attention_mask": mask, "token_type_ids": np.zeros_like(mask)}


def _example(model: "PreTrainedModel", names: Sequence[str]) -> "dict[str, torch.Tensor]":
    """Return two rows, the second padded. Each input is its own tensor: the tracer would merge inputs that share one."""
    import torch

    shape = (EXAMPLE_ROWS, EXAMPLE_TOKENS)
    padding = model.config.pad_token_id or 0
    example = {
        "input_ids": torch.full(shape, (padding + 1) % model.config.vocab_size),
        "attention_mask": torch.ones(shape, dtype=torch.int64),
        "token_type_ids": torch.zeros(shape, dtype=torch.int64),
    }
    example["input_ids"][1, -2:] = padding
    example["attention_mask"][1, -2:] = 0
    return {name: example[name] for name in names}


@contextmanager
def _quiet() -> Iterator[None]:
    """Hide the exporter's messages about itself (missing torchvision, renamed axes)."""
    loggers: list[Any] = [logging.getLogger(name) for name in ("torch.onnx", "onnxscript", "onnx_ir")]
    levels = [logger.level for logger in loggers]
    for logger in loggers:
        logger.setLevel(logging.ERROR)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        for logger, level in zip(loggers, levels, strict=True):
            logger.setLevel(level)
