"""The trained classifier: load it, and compute the logits of tokenized rows or of texts."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import cast

import numpy as np
import torch
from accelerate import PartialState
from numpy.typing import NDArray
from tqdm import tqdm
from transformers import AutoTokenizer, PreTrainedTokenizerFast
from transformers.utils.logging import disable_progress_bar

from tuneline.core.errors import DataError, StageError
from tuneline.core.machine import threads
from tuneline.model.batches import TokenizedRows, length_sorted_batches
from tuneline.model.encoding import Encoder
from tuneline.model.frozen_classifier import TrainedModel, load_classifier
from tuneline.tasks import Task

Logits = NDArray[np.float32]


@dataclass(frozen=True)
class Classifier:
    """A trained model in evaluation mode on its device: the accelerator if there is one, else the CPU."""

    model: TrainedModel
    tokenizer: PreTrainedTokenizerFast
    device: torch.device

    @classmethod
    def load(cls, folder: Path, labels: Task) -> "Classifier":
        """Load ``models/classifier``: safetensors only, no remote code, and with the labels of the data."""
        torch.set_num_threads(threads())  # torch does not know the quota of a container
        disable_progress_bar()  # type: ignore[no-untyped-call]
        try:
            model = load_classifier(folder, "sdpa")
            tokenizer = cast("PreTrainedTokenizerFast", AutoTokenizer.from_pretrained(folder))
        except (
            Exception
        ) as error:  # safetensors and transformers have no common base for what a broken file raises
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

    def logits(self, rows: TokenizedRows, batch_size: int, out: Logits | None = None) -> Logits:
        """Return the logits of every row, each counted once, float32 ``(rows, outputs)``; rows of similar length share a batch.

        ``out`` is an array for the result, which may be mapped to a file; without it, one is made in memory.
        """
        logits = (
            np.empty((len(rows), int(self.model.config.num_labels or 0)), dtype=np.float32)
            if out is None
            else out
        )
        seen = np.zeros(len(rows), dtype=np.int8)
        with torch.inference_mode(), tqdm(total=len(rows), desc="predict", unit="row", disable=None) as bar:
            for batch in length_sorted_batches(rows.lengths, batch_size):
                padded = rows.pad(batch, self.tokenizer.pad_token_id)
                inputs = {name: torch.from_numpy(values).to(self.device) for name, values in padded.items()}
                logits[batch] = self.model(**inputs).logits.float().cpu().numpy()
                seen[batch] += 1
                bar.update(len(batch))
        if not (seen == 1).all():
            raise AssertionError(
                f"{np.count_nonzero(seen != 1)} rows of {len(rows)} were not counted exactly once"
            )
        return logits

    def logits_of_texts(self, texts: Sequence[tuple[str, ...]], batch_size: int) -> Logits:
        """Return the logits of rows of one or two texts, tokenized as the stage ``tokenize`` does it; shape ``(rows, outputs)``."""
        pairs = len(texts[0]) == 2
        encoder = Encoder(self.tokenizer, self.tokenizer.model_max_length, pairs)
        columns = encoder.columns(encoder.encode(list(texts) if pairs else [row[0] for row in texts]))
        values = {name: column.values.to_numpy() for name, column in columns.items()}
        offsets = columns["input_ids"].offsets.to_numpy().astype(np.int64)
        return self.logits(TokenizedRows(values, offsets), batch_size)
