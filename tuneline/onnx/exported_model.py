"""An exported model with its tokenizer: rows of texts in, probabilities or numbers out."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from tokenizers import Tokenizer

from tuneline.core.runtime.errors import DataError, StageError
from tuneline.judge.decisions.rule import AnswerRule, CostRule
from tuneline.model.tasks import TASKS, Task
from tuneline.model.tokens.batches import RowWindows, TokenizedRows, row_offsets
from tuneline.model.tokens.encoding import InputEncoder, flat_array
from tuneline.model.tokens.long_text import LongText
from tuneline.onnx.session import OnnxClassifier, logits_of
from tuneline.onnx.usage import (
    EXPORT_RECORD,
    UsageRecord,
    content_version,
    exported_file,
    model_record,
)


@dataclass(frozen=True)
class EncodedRows(TokenizedRows):
    """Tokenized rows, with the number of rows that were longer than the model reads and lost tokens."""

    truncated: int


@dataclass(frozen=True)
class ExportedModel:
    """An exported model that takes texts of any length: the ONNX model, and the tokenizer beside it.

    What it reads of a text that is longer than the model is as in its training (``long_text``). Threads may
    share it: nothing in it changes.

    Attributes:
        text_columns: The columns of a row that it reads.
        task: What it predicts.
        rule: Which rows get an answer.
        pad_token_id: Token id that fills the shorter rows of a batch.
        classifier: The ONNX model.
        encoder: The tokenizer.
        version: What predictions name as their model.
    """

    text_columns: tuple[str, ...]
    task: Task
    rule: AnswerRule
    pad_token_id: int
    classifier: OnnxClassifier
    encoder: InputEncoder
    version: str

    @classmethod
    def load(cls, path: Path | str, precision: str | None = None, threads: int | None = None) -> Self:
        """Load a model that this project exported, with the tokenizer beside it.

        Args:
            path: A folder of models, or one ONNX file in it.
            precision: Precision of the model in a folder; ``None`` for fp32.
            threads: Threads per operator; ``None`` for all cores that the process may use.

        Raises:
            StageError: A file of the model is missing or damaged, or its record cannot be used.
        """
        file = exported_file(Path(path), precision)
        model = model_record(file)
        record = UsageRecord.read(file.parent / EXPORT_RECORD)
        classifier = OnnxClassifier(file, threads)
        tokenizer_file = str(file.parent / record.tokenizer.file)
        try:
            task = TASKS[record.task].of_outputs(record.labels or ()).with_decisions(record.decisions or {})
            costs = None
            if model.costs is not None:
                costs = CostRule.of(model.costs.errors, model.costs.abstain, task.class_names)
            return cls(
                text_columns=tuple(record.text_columns),
                task=task.with_decisions(model.decisions or {}),
                rule=AnswerRule(costs),
                pad_token_id=record.pad_token_id,
                classifier=classifier,
                encoder=InputEncoder(
                    Tokenizer.from_file(tokenizer_file),
                    tokenizer_file,
                    record.max_length,
                    record.long_text or LongText(),
                    record.tokenizer.truncation_side,
                ),
                version=content_version(record, model),
            )
        except Exception as error:  # errors of the library tokenizers have no class of their own
            problem = f"{file} cannot be used with its record and tokenizer: {type(error).__name__}: {error}."
            raise StageError(problem, "Export it again: `dvc repro -f export`.") from None

    @property
    def max_length(self) -> int:
        """Tokens that the model reads at once, special tokens included."""
        return self.encoder.max_length

    @property
    def long_text(self) -> LongText:
        """What the model reads of a text that is longer than that."""
        return self.encoder.long_text

    @property
    def unread(self) -> str:
        """What of long rows the model does not read, in words: the end of a sentence about such rows."""
        if self.long_text.windows is not None:
            limit = f"{self.long_text.windows.max_windows} windows of {self.max_length}"
            return f"longer than {limit} tokens: the model did not read the rest"
        return f"longer than {self.max_length} tokens: the model did not read the rest"

    def input_columns(self, named: Sequence[str] | None) -> tuple[str, ...]:
        """Return the columns of a file that hold the text: named by ``--text``, else as in training.

        Raises:
            StageError: ``--text`` names more or fewer columns than the model takes.
        """
        if not named:
            return self.text_columns
        if len(named) != len(self.text_columns):
            required = "one text, as in --text body"
            if len(self.text_columns) == 2:
                required = "two texts, as in --text subject --text body"
            raise StageError(
                f"--text: {len(named)} given, but the model takes {required}.",
                f"It was trained on {' and '.join(self.text_columns)}.",
            )
        return tuple(named)

    def encode(self, texts: Sequence[tuple[str, ...]]) -> EncodedRows:
        """Tokenize rows of one or two texts, exactly as the stage ``tokenize`` does.

        Raises:
            DataError: A row has more or fewer texts than the model reads.
            EncodingError: The tokenizer fails on a row, or the shorter text of a pair leaves no room for
                windows of the longer one.
        """
        self._check_texts(texts)
        is_pair = len(self.text_columns) > 1
        rows: list[Any] = list(texts)
        if not is_pair:
            rows = [text for (text,) in texts]
        inputs = self.encoder.encode(rows)
        input_offsets = row_offsets(inputs.lengths)
        first_inputs = row_offsets(inputs.windows)

        # Only the inputs that this model has
        tokens = int(input_offsets[-1])
        values = {"input_ids": flat_array(inputs.token_ids(), np.int64, tokens)}
        if "attention_mask" in self.classifier.inputs:
            values["attention_mask"] = np.ones(tokens, dtype=np.int64)
        if "token_type_ids" in self.classifier.inputs:
            values["token_type_ids"] = flat_array(inputs.type_ids(), np.int64, tokens)

        windows = None
        if self.long_text.answer is not None:
            windows = RowWindows(first_inputs, input_offsets, self.long_text.answer)
        return EncodedRows(values, input_offsets[first_inputs], inputs.truncated, windows=windows)

    def _check_texts(self, texts: Sequence[tuple[str, ...]]) -> None:
        """Check that each row has as many texts as the model reads: a pair is not a single text."""
        for number, row in enumerate(texts):
            if len(row) != len(self.text_columns):
                raise DataError(
                    f"row {number}: {len(row)} texts, but the model reads {len(self.text_columns)}:"
                    f" {', '.join(self.text_columns)}.",
                    "Pass a tuple of that many texts for each row.",
                )

    def logits(self, rows: TokenizedRows, batch_size: int) -> NDArray[np.float32]:
        """Return the logits ``(rows, outputs)`` of tokenized rows.

        A forward pass has ``batch_size`` of them, or of their windows, at most.
        """
        return logits_of(self.classifier, rows, self.task.outputs, self.pad_token_id, batch_size)

    def outputs(self, rows: TokenizedRows, batch_size: int) -> NDArray[np.float64]:
        """Predict tokenized rows, ``batch_size`` of them in a forward pass.

        Returns:
            Probabilities of the classes, or the predicted number; shape ``(rows, outputs)``.
        """
        return self.task.scores(self.logits(rows, batch_size))
