"""Splits in memory, which tests change and write where the stage reads them."""

import json
import random
import string
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory

import pyarrow as pa
from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers, processors

from tests.params import params
from tuneline.checks.tables import DataFolders
from tuneline.core.params import Params
from tuneline.core.paths import SPLITS
from tuneline.core.stage.tables import WINDOW_LENGTHS, write_table
from tuneline.model.tasks import Classification, Multilabel, Task
from tuneline.model.tasks.columns import raw_schema, tokenized_schema
from tuneline.model.tokens.encoded_columns import Encoder
from tuneline.model.tokens.long_text import LongText
from tuneline.model.tokens.wordpiece import SavedTokenizer

SPECIAL = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")
SYLLABLES = ("ba", "de", "ki", "lo", "mu", "na", "pe", "ri", "so", "tu")
WORDS = tuple(a + b + c for a in SYLLABLES for b in SYLLABLES for c in ("n", ""))
FOREIGN = tuple(word + "x" for word in WORDS)
ROWS = {"train": 200, "validation": 60, "test": 60}


def tokenizer_of(words: Sequence[str]) -> Tokenizer:
    """Return a BERT-like tokenizer whose vocabulary has some words and all their letters."""
    normalizer = normalizers.BertNormalizer()
    words = [normalizer.normalize_str(word) for word in words]
    letters = sorted({letter for word in words for letter in word})
    vocabulary = [
        *SPECIAL,
        *string.punctuation,
        "…",
        *letters,
        *(f"##{letter}" for letter in letters),
        *words,
    ]
    tokenizer = Tokenizer(
        models.WordPiece(
            {word: number for number, word in enumerate(dict.fromkeys(vocabulary))}, unk_token=SPECIAL[1]
        )
    )
    tokenizer.normalizer = normalizer
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.decoder = decoders.WordPiece()
    special = [(token, tokenizer.token_to_id(token)) for token in ("[CLS]", "[SEP]")]
    tokenizer.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", pair="[CLS] $A [SEP] $B:1 [SEP]:1", special_tokens=special
    )
    tokenizer.add_special_tokens(list(SPECIAL))
    return tokenizer


@dataclass
class Data:
    """Splits as plain lists.

    Attributes:
        columns: Text columns.
        labels: The label schema.
        params: All parameters.
        raw: Values by split, then by column.
        tokenizer: Tokenizer that makes ``tokenized`` from ``raw``.
        tokenized: Values by split, then by column.
    """

    columns: tuple[str, ...]
    labels: Task
    params: Params
    raw: dict[str, dict[str, list]]
    tokenizer: Tokenizer = field(default_factory=lambda: tokenizer_of(WORDS + FOREIGN))
    tokenized: dict[str, dict[str, list]] = field(default_factory=dict)

    def tokenize(self) -> "Data":
        """Tokenize the raw splits again."""
        if self.params.tokenize.long_text != "truncate":
            return self._tokenize_long_texts()
        self.tokenizer.enable_truncation(self.params.tokenize.max_length)
        for split, columns in self.raw.items():
            texts = [[text or "" for text in columns[name]] for name in self.columns]
            encoded = self.tokenizer.encode_batch(
                texts[0] if len(texts) == 1 else list(zip(*texts, strict=True))
            )
            self.tokenized[split] = {
                "input_ids": [list(row.ids) for row in encoded],
                "attention_mask": [list(row.attention_mask) for row in encoded],
                "token_type_ids": [list(row.type_ids) for row in encoded],
                "labels": list(columns["labels"]),
            }
        return self

    def set_params(self, change: Callable[[dict], None]) -> None:
        """Change parameters, given as the values of a parameter file."""
        values = self.params.model_dump(by_alias=True)
        change(values)
        self.params = Params.model_validate(values)

    def _tokenize_long_texts(self) -> "Data":
        """Tokenize with the encoder of the stage ``tokenize``."""
        tokenize = self.params.tokenize
        with TemporaryDirectory() as folder:
            self.tokenizer.save(f"{folder}/tokenizer.json")
            saved = SavedTokenizer(
                path=Path(folder, "tokenizer.json"),
                truncation_side="right",
                unk_token_id=self.tokenizer.token_to_id("[UNK]"),
                model_input_names=["input_ids", "token_type_ids", "attention_mask"],
            )
            encoder = Encoder(saved, tokenize.max_length, len(self.columns) == 2, LongText.of(tokenize))
        for split, columns in self.raw.items():
            texts = columns[self.columns[0]]
            if len(self.columns) == 2:
                texts = list(zip(*(columns[name] for name in self.columns), strict=True))
            encoded = encoder.columns(encoder.encode(texts))
            self.tokenized[split] = {name: values.to_pylist() for name, values in encoded.items()}
            self.tokenized[split]["labels"] = list(columns["labels"])
        return self

    def write(self, folder: Path) -> DataFolders:
        """Write the files that the stage reads."""
        folders = DataFolders(folder / "raw", folder / "tokenized", folder / "derived")
        folders.raw.mkdir(parents=True)
        folders.tokenizer.mkdir(parents=True)
        for split in SPLITS:
            raw, tokenized = self.raw[split], self.tokenized[split]
            raw_table = pa.table(
                {**raw, "idx": list(range(len(raw["labels"])))}, schema=raw_schema(self.columns, self.labels)
            )
            write_table(raw_table, folders.raw / f"{split}.parquet")
            answer = LongText.of(self.params.tokenize).answer
            schema = tokenized_schema("token_type_ids" in tokenized, self.labels, answer)
            tokenized_table = pa.table(tokenized, schema=schema)
            write_table(tokenized_table, folders.tokenized / f"{split}.parquet")
        self.tokenizer.no_truncation()
        self.tokenizer.save(str(folders.tokenizer / "tokenizer.json"))
        names = [name for name in self.tokenized["train"] if name not in ("labels", WINDOW_LENGTHS)]
        config = {"unk_token": "[UNK]", "model_input_names": names}
        (folders.tokenizer / "tokenizer_config.json").write_text(json.dumps(config))
        return folders


def sentence(rng: random.Random, words: Sequence[str] = WORDS, shortest: int = 8, longest: int = 14) -> str:
    """Return some random words."""
    return " ".join(rng.choices(words, k=rng.randint(shortest, longest)))


def words_of(label: int, classes: int, words: Sequence[str] = WORDS) -> list[str]:
    """Return words to choose from in texts of a class: its own ones are three times as likely, so that the
    label can be learnt."""
    return [*words, *words[label::classes] * 2]


def params_for(columns: Sequence[str], task: str = "classification") -> Params:
    """Return the default parameters for these columns."""
    data = {"text_columns": list(columns), "task": task}
    if task == "multilabel":
        data["label_sets"] = {"layout": "lists"}
    return params(
        data=data, tokenize={"max_length": 64}, model={"checkpoint": None, "config": {"model_type": "bert"}}
    )


def good_data(seed: int = 7) -> Data:
    """Return valid pairs of texts in three classes, the last of them rare."""
    rng = random.Random(seed)
    columns = ("one", "two")
    raw = {}
    for split, rows in ROWS.items():
        labels = [2 if row % 40 == 15 else row % 2 for row in range(rows)]
        texts = {name: [sentence(rng, words_of(label, 3)) for label in labels] for name in columns}
        raw[split] = {**texts, "labels": labels}
    return Data(columns, Classification(("no", "yes", "perhaps")), params_for(columns), raw).tokenize()


TOPICS = ("billing", "delivery", "refund", "urgent")
TOPIC_SHARES = (0.4, 0.3, 0.2, 0.15)


def good_sets(seed: int = 7) -> Data:
    """Return valid texts with any number of four labels."""
    rng = random.Random(seed)
    raw = {}
    for split, rows in ROWS.items():
        texts, labels = [], []
        for _ in range(3 * rows):
            topics = [topic for topic, share in enumerate(TOPIC_SHARES) if rng.random() < share]
            words = list(WORDS)
            for topic in topics:
                words += words_of(topic, len(TOPICS))[len(WORDS) :]
            texts.append(sentence(rng, words))
            labels.append(topics)
        raw[split] = {"text": texts, "labels": labels}
    return Data(("text",), Multilabel(TOPICS), params_for(("text",), "multilabel"), raw).tokenize()
