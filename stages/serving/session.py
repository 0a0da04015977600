"""An exported model, loaded and ready to be asked."""

import os
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

import numpy as np
import onnxruntime
from numpy.typing import NDArray

from stages.batches import TokenizedRows, length_sorted_batches
from stages.errors import StageError


def threads() -> int:
    """Cores that this process may use: ``OMP_NUM_THREADS`` where it is set, else those it is allowed to run on."""
    wanted = os.environ.get("OMP_NUM_THREADS", "")
    return int(wanted) if wanted.isdigit() and int(wanted) > 0 else len(os.sched_getaffinity(0))


def session_options(intra_op_threads: int | None = None) -> onnxruntime.SessionOptions:
    """How a model is run.

    Args:
        intra_op_threads: Threads inside one operator; ``None`` for ``threads()``.
    """
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = intra_op_threads or threads()
    # Otherwise they keep a core busy for 40 ms after each batch, which whoever comes next (a tokenizer, another model) pays for.
    options.add_session_config_entry("session.force_spinning_stop", "1")
    return options


class OnnxClassifier:
    """An ONNX model that turns padded batches into logits.

    Attributes:
        inputs: Names of the arrays it reads.
    """

    def __init__(self, path: Path, intra_op_threads: int | None = None) -> None:
        """Loads ``path``.

        Args:
            path: The model.
            intra_op_threads: Threads inside one operator; ``None`` for ``threads()``.

        Raises:
            StageError: The file cannot be loaded.
        """
        onnxruntime.disable_telemetry_events()
        onnxruntime.set_default_logger_severity(3)  # its warnings are about its own optimizer
        options = session_options(intra_op_threads)
        try:
            self._session = onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
        except Exception as error:  # ONNX Runtime's errors have no common base of their own
            raise StageError(f"{path} cannot be loaded by ONNX Runtime: {error}", "Export it again: `dvc repro -f export`.") from None
        self.inputs = tuple(given.name for given in self._session.get_inputs())

    def logits(self, batch: Mapping[str, NDArray[np.int64]]) -> NDArray[np.float32]:
        """Runs one padded batch.

        Args:
            batch: int64 of shape ``[rows, tokens]`` by name; arrays that the model does not read are left out.

        Returns:
            float32 of shape ``[rows, outputs]``.
        """
        fed = {name: batch[name] for name in self.inputs}
        logits: NDArray[np.float32] = self._session.run(["logits"], fed)[0]
        return logits

    @property
    def metadata(self) -> dict[str, str]:
        """What the model says of itself."""
        return dict(self._session.get_modelmeta().custom_metadata_map)


def logits_of(
    model: OnnxClassifier, rows: TokenizedRows, pad_token_id: int, batch_size: int = 64, progress: str | None = None
) -> NDArray[np.float32]:
    """Logits of some rows, in their order; rows of like length share a batch.

    Args:
        model: The model.
        rows: At least one.
        pad_token_id: Of the tokenizer.
        batch_size: Rows in a batch.
        progress: A name for a progress bar; ``None`` for no bar.

    Returns:
        float32 of shape ``[rows, outputs]``.
    """
    batches = length_sorted_batches(rows.lengths, batch_size)
    first = model.logits(rows.pad(batches[0], pad_token_id))
    logits = np.empty((len(rows), first.shape[1]), dtype=np.float32)
    logits[batches[0]] = first
    for batch in _shown(batches[1:], progress):
        logits[batch] = model.logits(rows.pad(batch, pad_token_id))
    return logits


def _shown(batches: Sequence[NDArray[np.int64]], progress: str | None) -> Iterable[NDArray[np.int64]]:
    if progress is None:
        return batches
    from tqdm import tqdm

    bar: Iterable[NDArray[np.int64]] = tqdm(batches, desc=progress, unit="batch", disable=None)
    return bar
