"""The trained classifier: load it, and compute the logits of tokenized rows."""

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from accelerate import PartialState
from torch import Tensor
from transformers import PreTrainedTokenizerFast
from transformers.utils.logging import disable_progress_bar

from tuneline.core.runtime.errors import DataError, StageError
from tuneline.core.runtime.terminal import progress
from tuneline.core.stage.machine import threads
from tuneline.model.linear.pooled_classifier import TrainedModel, load_classifier, start_threads
from tuneline.model.tasks import Task
from tuneline.model.tasks.task import Logits
from tuneline.model.tokens.batches import TokenizedRows, compute_outputs
from tuneline.model.tokens.tokenizer import load_tokenizer


@dataclass(frozen=True)
class Classifier:
    """A trained model in evaluation mode on its device: the accelerator if there is one, else the CPU."""

    model: TrainedModel
    tokenizer: PreTrainedTokenizerFast
    device: torch.device

    @classmethod
    def load(cls, folder: Path, labels: Task) -> "Classifier":
        """Load ``models/classifier``: safetensors only, no remote code, and with the labels of the data."""
        start_threads(threads())  # torch does not know the quota of a container
        disable_progress_bar()  # type: ignore[no-untyped-call]
        try:
            model = load_classifier(folder, "sdpa")
            tokenizer = load_tokenizer(folder, str(folder))
        except Exception as error:  # errors of safetensors and transformers have no common base class
            raise StageError(
                f"{folder} cannot be loaded: {str(error).splitlines()[0]}",
                "Train again: `dvc repro -f train`.",
            ) from None
        if model.config.num_labels != labels.outputs:
            raise DataError(
                f"{folder} has {model.config.num_labels} outputs; the data needs {labels.outputs}.",
                "Train again: `dvc repro train`.",
            )
        device = PartialState().device
        return cls(model.to(device).eval(), tokenizer, device)

    def logits(self, rows: TokenizedRows, batch_size: int) -> Logits:
        """Return the logits of every row, float32 ``(rows, outputs)``.

        Rows of similar length share a batch, which has ``batch_size`` rows, or windows of rows, at most.
        """

        def compute_logits(inputs: dict[str, Tensor]) -> Tensor:
            logits: Tensor = self.model(**inputs).logits
            return logits

        out = np.empty((len(rows), int(self.model.config.num_labels or 0)), dtype=np.float32)
        with progress("predict", len(rows)) as step:
            return compute_outputs(
                compute_logits,
                rows,
                out,
                pad_token_id=self.tokenizer.pad_token_id,
                device=self.device,
                batch_size=batch_size,
                advance=step.advance,
            )
