"""The trained model as an ONNX graph: inputs of any batch size and length, exactly those that the model reads."""

import inspect
import logging
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import onnx

from stages.export.agreement import agrees, answer, padded_rows
from stages.export.cleaning import clean
from stages.export.first_token import keep_first_token
from stages.export.padding import skip_padding
from stages.export.shapes import BATCH, SEQUENCE, Traced
from tuneline.errors import StageError

if TYPE_CHECKING:
    import torch
    from transformers import PreTrainedModel

LOGITS = "logits"
EXAMPLE_ROWS, EXAMPLE_TOKENS = 2, 8
"""Shape of the example that is traced. Neither is 0 or 1: those the tracer would take for constants."""
Rewriting = Callable[[Traced], None]
REWRITINGS: tuple[tuple[Rewriting, ...], ...] = ((keep_first_token, skip_padding), (keep_first_token,))
"""What makes a graph faster and leaves its logits as they are, for most models: the first set that does is taken, else none."""


def input_names(model: "PreTrainedModel", columns: Sequence[str]) -> list[str]:
    """The tokenized columns that the model's ``forward`` takes, in the order of its signature."""
    return [name for name in inspect.signature(model.forward).parameters if name in columns]


def to_onnx(model: "PreTrainedModel", columns: Sequence[str], opset: int) -> onnx.ModelProto:
    """Makes a graph of a classifier, with one output, ``logits`` of shape ``[batch, outputs]``.

    Args:
        model: In evaluation mode, on the CPU.
        columns: The model inputs that the tokenized splits have.
        opset: Version of the ONNX operators.

    Returns:
        The graph with its weights inside, without a trace of the machine that made it. Inputs that the model ignores
        (``token_type_ids`` where it has none) are left out.

    Raises:
        StageError: ONNX Runtime cannot run what the exporter writes for this model with these operators.
    """
    names = input_names(model, columns)
    traced = trace(model, names, opset)
    for rewritings in REWRITINGS:
        if agrees(made := rewritten(traced, rewritings), model, names):
            return made
    plain = rewritten(traced, ())
    if answer(plain, padded_rows(model)) is None:
        raise StageError(
            f"ONNX Runtime cannot run this model at opset {opset}.", "Set export.opset to another version: 20 suits most models."
        )
    return plain


def rewritten(traced: onnx.ModelProto, rewritings: Sequence[Rewriting]) -> onnx.ModelProto:
    """A clean copy of a traced graph, after some rewritings."""
    copy = onnx.ModelProto()
    copy.CopyFrom(traced)
    values = Traced.of(copy.graph)
    for rewrite in rewritings:
        rewrite(values)
    return clean(copy)


def trace(model: "PreTrainedModel", names: Sequence[str], opset: int) -> onnx.ModelProto:
    """The graph as the exporter writes it, with the shapes of all values in it."""
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
    made: onnx.ModelProto = program.model_proto
    return made


def _example(model: "PreTrainedModel", names: Sequence[str]) -> "dict[str, torch.Tensor]":
    """Two rows, the second padded: tensors of their own, since the tracer takes one tensor in two places for one input."""
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
    """Keeps the exporter's notes on itself (missing torchvision, renamed axes) off the user's screen."""
    noisy: list[Any] = [logging.getLogger(name) for name in ("torch.onnx", "onnxscript", "onnx_ir")]
    levels = [logger.level for logger in noisy]
    for logger in noisy:
        logger.setLevel(logging.ERROR)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        for logger, level in zip(noisy, levels, strict=True):
            logger.setLevel(level)
