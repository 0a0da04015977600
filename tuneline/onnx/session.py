"""Sessions of ONNX Runtime: load an exported model and compute logits."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Self

import numpy as np
import onnxruntime
from numpy.typing import NDArray

from tuneline.core.runtime.errors import StageError
from tuneline.core.stage.machine import threads
from tuneline.model.tokens.batches import TokenizedRows, compute_by_length
from tuneline.onnx.usage import exported_file


def session_options(intra_op_threads: int | None = None) -> onnxruntime.SessionOptions:
    """Return the options of a session.

    Args:
        intra_op_threads: Threads for each operator; ``None`` for ``tuneline.core.stage.machine.threads()``.
    """
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = intra_op_threads or threads()
    # Idle threads would otherwise spin for 40 ms after each batch and slow down the tokenizer or another
    # model.
    options.add_session_config_entry("session.force_spinning_stop", "1")
    # A plan of the memory is kept for each shape of a batch, of which there are as many as batches: it grows,
    # and is no faster (docs/benchmarks.md).
    options.enable_mem_pattern = False
    return options


class OnnxClassifier:
    """An ONNX model that computes logits of padded batches."""

    def __init__(self, path: Path, intra_op_threads: int | None = None) -> None:
        """Load a model; a ``StageError`` names a file that ONNX Runtime cannot load."""
        onnxruntime.disable_telemetry_events()
        onnxruntime.set_default_logger_severity(3)  # hide warnings of its graph optimizer
        try:
            self._session = open_session(path, session_options(intra_op_threads))
        except Exception as error:  # ONNX Runtime's errors have no common base class
            raise StageError(
                f"{path} cannot be loaded by ONNX Runtime: {error}", "Export it again: `dvc repro -f export`."
            ) from None
        self.inputs = tuple(value.name for value in self._session.get_inputs())

    @classmethod
    def exported(cls, path: Path, precision: str | None = None, threads: int | None = None) -> Self:
        """Load a model that ``export`` wrote, from its folder or file.

        ``exported_file`` refuses a damaged one.
        """
        return cls(exported_file(path, precision), threads)

    def logits(self, batch: Mapping[str, NDArray[np.int64]]) -> NDArray[np.float32]:
        """Compute the logits of one padded batch.

        Args:
            batch: Arrays ``(rows, tokens)`` by name; those that are not an input of the model are ignored.

        Returns:
            Logits of shape ``(rows, outputs)``.
        """
        inputs = {name: batch[name] for name in self.inputs}
        logits: NDArray[np.float32]
        (logits,) = self._session.run(["logits"], inputs)
        return logits

    @property
    def metadata(self) -> dict[str, str]:
        """The record in the model's metadata, see ``stages.export``."""
        return dict(self._session.get_modelmeta().custom_metadata_map)


def open_session(model: Path | bytes, options: onnxruntime.SessionOptions) -> onnxruntime.InferenceSession:
    """Load a model, from its file or its bytes, on the CPU."""
    return onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])


def logits_of(
    model: OnnxClassifier,
    rows: TokenizedRows,
    outputs: int,
    pad_token_id: int,
    batch_size: int = 64,
    *,
    advance: Callable[[int], object] = int,
) -> NDArray[np.float32]:
    """Compute the logits of tokenized rows.

    Args:
        model: The model.
        rows: The rows.
        outputs: Number of logits of a row.
        pad_token_id: Token id that fills the shorter rows of a batch.
        batch_size: Rows of a forward pass at most, or windows of rows; rows of similar length share one. The
            windows of a row are not separated.
        advance: Called with the number of rows after each batch.

    Returns:
        Logits of shape ``(rows, outputs)``, in the order of the rows.
    """

    def compute(batch: NDArray[np.int64]) -> NDArray[np.float32]:
        answers = rows.answers(model.logits(rows.pad(batch, pad_token_id)), batch)
        if len(batch) > 1 and not np.isfinite(answers).all():
            # each row alone: int8 rounds by what is in a batch, so others may have got the NaN of one
            return np.concatenate([compute(row) for row in np.split(batch, len(batch))])
        return answers

    logits = np.empty((len(rows), outputs), dtype=np.float32)
    return compute_by_length(
        compute, rows.lengths, batch_size, logits, windows=rows.window_counts, advance=advance
    )
