"""Small tokenizers in the form of well-known families, made by the library tokenizers alone.

Each has the normalizer, pre-tokenizer and template that transformers 4.57 gave its family, in its
``tokenizer.json``; their configurations are as published checkpoints have them.
"""

import base64
import json
import zlib
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

from tokenizers import AddedToken, Regex, Tokenizer, models, normalizers, pre_tokenizers, processors

from tuneline.model.checkpoints.base_tokens import TEXTS

CHARSMAP = zlib.decompress(
    base64.b85decode(
        "c-ke?2W(eW6bInjMu;^aNLUdS97x0Xqk^I`oG2)J3nHs1XpxN|A~=|pDP@lWWe))dWt6=mLj>6y!U(cKHhxcE^1a{9J;}|@JLiQ5"
        "LI{OINXQ<dr&n4Quf+I}@^}dGmYGTMAweOl^@F6^e@JGtmxG6Sgq-})EQDM#54p)lUiwrFA-^oZqc|cwMnRt7$^Wkqp5`eE^9)6J"
        "mT8MaNR-7WN(qWnk{HkP9Hn@H7b#5{Ug8yArYx^go^rfK1>WFw-r`MMH@wZeyhCLw@jmZSl`2%H8a1gwZE8`MI@G5gAJBkCG^8;f"
        "(u9xj*+NrV(43Ye@d+Q(npS+qr?erNwtP-|+R>2?bfyzu(1mVvr8{5JgRkhx*L)K-p6~dU-h5BrsCV?IA1MrAVAN{{Gl-!K;YWs%"
        "%5X+9g3*j(EMpkYI3_ZINu)7_$xJ1k=~3^Q$qZ&Qi@D6<C+4w$`TWd6e&rVy@f*e`WU!PaWU`DEEN2xfS;K19v6c<2XA>KvT6$dA"
        "EVuAG+t|t<Z0ApQu#27S<}dcLhyCp1AO|?iA&zo{;~e88Cpg80PI2LkJRQ|C;=)<^H|L@n=efj1u5g)aT;(6GbCVm~<`#Fk!+q}k"
        "_wU7GF_V^Ta{dLeGmKa"
    )
)
"""Map of SentencePiece: full-width f, u and l narrow, "…" as three points, special spaces plain.

Made by ``SentencePieceTrainer`` with ``normalization_rule_tsv``.
"""
WORDS = sorted({word for text in TEXTS for word in text.split()} | {"full", "...", "the", "rose", "hello"})
CHARACTERS = sorted({character for text in TEXTS for character in text if not character.isspace()})
BERT = {"pad": "[PAD]", "unk": "[UNK]", "cls": "[CLS]", "sep": "[SEP]", "mask": "[MASK]"}
ROBERTA = {
    "bos": "<s>", "pad": "<pad>", "eos": "</s>", "unk": "<unk>", "mask": "<mask>", "cls": "<s>", "sep": "</s>"
}  # fmt: skip


@dataclass(frozen=True)
class Family:
    """A family of tokenizers.

    Attributes:
        tokenizer: Makes its tokenizer.
        config: Contents of ``tokenizer_config.json``.
        model: Contents of ``config.json``.
    """

    tokenizer: Callable[[], Tokenizer]
    config: dict[str, Any]
    model: dict[str, Any] = field(default_factory=dict)

    def write(self, folder: Path) -> Path:
        """Write the tokenizer and the configurations, as the repository of a checkpoint has them."""
        folder.mkdir(parents=True, exist_ok=True)
        self.tokenizer().save(str(folder / "tokenizer.json"))
        (folder / "tokenizer_config.json").write_text(json.dumps(self.config))
        (folder / "config.json").write_text(json.dumps(self.model))
        return folder


def special(names: dict[str, str]) -> dict[str, str]:
    """Return special tokens as a configuration has them."""
    return {f"{name}_token": token for name, token in names.items()}


def template(tokenizer: Tokenizer, single: str, pair: str, tokens: tuple[str, ...]) -> None:
    """Set what is written around one text and two."""
    ids = [(token, tokenizer.token_to_id(token)) for token in tokens]
    tokenizer.post_processor = processors.TemplateProcessing(single=single, pair=pair, special_tokens=ids)


BERT_TEMPLATE = ("[CLS]:0 $A:0 [SEP]:0", "[CLS]:0 $A:0 [SEP]:0 $B:1 [SEP]:1", ("[CLS]", "[SEP]"))
T5_TEMPLATE = ("$A:0 </s>:0", "$A:0 </s>:0 $B:0 </s>:0", ("</s>",))
XLMR_TEMPLATE = ("<s> $A </s>", "<s> $A </s> </s> $B </s>", ("<s>", "</s>"))


@cache
def word_pieces(first: tuple[str, ...]) -> dict[str, int]:
    """Return a vocabulary of WordPiece with words in both cases, and each character."""
    pieces = [*first, *CHARACTERS, *(f"##{character}" for character in CHARACTERS), *WORDS]
    pieces += [word.lower() for word in WORDS] + ["cafe", "resume", "中文", "##文"]
    return {piece: number for number, piece in enumerate(dict.fromkeys(pieces))}


def word_piece(names: dict[str, str] = BERT, template_of=BERT_TEMPLATE, **normalizer: Any) -> Tokenizer:
    """Return a tokenizer as BERT has it."""
    tokens = tuple(dict.fromkeys(names.values()))
    tokenizer = Tokenizer(models.WordPiece(word_pieces(tokens), unk_token=names["unk"]))
    tokenizer.normalizer = normalizers.BertNormalizer(clean_text=True, **normalizer)
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    template(tokenizer, *template_of)
    tokenizer.add_special_tokens(list(tokens))
    return tokenizer


def mpnet() -> Tokenizer:
    """Return a tokenizer as MPNet has it: WordPiece with the special tokens of RoBERTa."""
    names = {**ROBERTA, "unk": "[UNK]"}
    pair = "<s>:0 $A:0 </s>:0 </s>:0 $B:1 </s>:1"
    return word_piece(names, ("<s>:0 $A:0 </s>:0", pair, ("<s>", "</s>")), lowercase=False)


FUNNEL = {
    "cls": "<cls>", "sep": "<sep>", "pad": "<pad>", "unk": "<unk>", "mask": "<mask>", "bos": "<s>",
    "eos": "</s>",
}  # fmt: skip


def funnel() -> Tokenizer:
    """Return a tokenizer as Funnel has it: the first token has type 2."""
    pair = "<cls>:2 $A:0 <sep>:0 $B:1 <sep>:1"
    return word_piece(FUNNEL, ("<cls>:2 $A:0 <sep>:0", pair, ("<cls>", "<sep>")), lowercase=False)


def byte_bpe(names: dict[str, str], prefix: bool, post_processor: Any = None) -> Tokenizer:
    """Return a tokenizer of bytes, as RoBERTa and GPT-2 have it."""
    tokens = list(dict.fromkeys(names.values()))
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    pieces = [*tokens, *alphabet, "he", "ll", "hell", "hello", "Ġh", "Ġhello"]
    merges = [("h", "e"), ("l", "l"), ("he", "ll"), ("hell", "o"), ("Ġ", "h"), ("Ġ", "hello")]
    vocabulary = {piece: number for number, piece in enumerate(pieces)}
    tokenizer = Tokenizer(models.BPE(vocabulary, merges, fuse_unk=False))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=prefix)
    tokenizer.post_processor = post_processor or processors.ByteLevel(trim_offsets=True)
    tokenizer.add_special_tokens(
        [AddedToken(token, lstrip=token == "<mask>", normalized=False) for token in tokens]  # noqa: S105
    )
    return tokenizer


def roberta(prefix: bool) -> Tokenizer:
    """Return a tokenizer as RoBERTa has it."""
    processor = processors.RobertaProcessing(("</s>", 2), ("<s>", 0), True, prefix)
    return byte_bpe(ROBERTA, prefix, processor)


def deberta() -> Tokenizer:
    """Return a tokenizer as DeBERTa v1 has it; both texts of a pair have type 0."""
    tokenizer = byte_bpe(BERT, False)
    pair = "[CLS]:0 $A:0 [SEP]:0 $B:0 [SEP]:0"
    template(tokenizer, "[CLS]:0 $A:0 [SEP]:0", pair, ("[CLS]", "[SEP]"))
    return tokenizer


def unigram(
    names: dict[str, str],
    normalizer: list[Any],
    template_of: tuple[str, str, tuple[str, ...]],
    pre_tokenizer: Any = None,
) -> Tokenizer:
    """Return a tokenizer as models of SentencePiece have it."""
    tokens = list(dict.fromkeys(names.values()))
    pieces = [*tokens, "▁", *CHARACTERS, *(f"▁{word}" for word in WORDS)]
    pieces += [f"▁{word.lower()}" for word in WORDS]
    scores = [(piece, -float(len(pieces) - number)) for number, piece in enumerate(dict.fromkeys(pieces))]
    tokenizer = Tokenizer(models.Unigram(scores, unk_id=tokens.index(names["unk"])))
    tokenizer.normalizer = normalizers.Sequence(normalizer)
    metaspace = pre_tokenizers.Metaspace(replacement="▁", prepend_scheme="always")
    tokenizer.pre_tokenizer = pre_tokenizer or metaspace
    template(tokenizer, *template_of)
    tokenizer.add_special_tokens(tokens)
    return tokenizer


def spaces(by: str = " ") -> Any:
    """Return the step that joins spaces."""
    return normalizers.Replace(Regex(" {2,}"), by)


def precompiled() -> Any:
    """Return the step with the map of SentencePiece."""
    return normalizers.Precompiled(CHARSMAP)


def quotes() -> list[Any]:
    """Return the steps that write quotation marks of LaTeX plain."""
    return [normalizers.Replace("``", '"'), normalizers.Replace("''", '"')]


ALBERT = {"pad": "<pad>", "unk": "<unk>", "cls": "[CLS]", "sep": "[SEP]", "mask": "[MASK]"}
XLNET = {"unk": "<unk>", "bos": "<s>", "eos": "</s>", "cls": "<cls>", "sep": "<sep>", "pad": "<pad>"}
SPM = [precompiled, lambda: normalizers.Strip(left=False, right=True), lambda: spaces("▁")]


def steps(made: list[Callable[[], Any]]) -> list[Any]:
    """Return new steps."""
    return [make() for make in made]


def deberta_v2() -> Tokenizer:
    """Return a tokenizer as DeBERTa v2 and v3 have it."""
    metaspace = pre_tokenizers.Metaspace(replacement="▁", prepend_scheme="always")
    return unigram(
        BERT,
        [normalizers.Strip(), precompiled(), spaces()],
        BERT_TEMPLATE,
        pre_tokenizers.Sequence([metaspace]),
    )


def albert(lower: bool) -> Tokenizer:
    """Return a tokenizer as ALBERT has it."""
    accents = [normalizers.NFKD(), normalizers.StripAccents()]
    case = [normalizers.Lowercase()] if lower else []
    return unigram(ALBERT, [*quotes(), *accents, *case, precompiled(), spaces()], BERT_TEMPLATE)


def rembert() -> Tokenizer:
    """Return a tokenizer as RemBERT has it."""
    return unigram(ALBERT, [*quotes(), spaces(), precompiled()], BERT_TEMPLATE)


def xlnet() -> Tokenizer:
    """Return a tokenizer as XLNet has it: its special tokens are at the end."""
    pair = "$A:0 <sep>:0 $B:1 <sep>:1 <cls>:2"
    steps_of = [*quotes(), normalizers.NFKD(), normalizers.StripAccents(), precompiled(), spaces()]
    return unigram(XLNET, steps_of, ("$A:0 <sep>:0 <cls>:2", pair, ("<sep>", "<cls>")))


def modernbert() -> Tokenizer:
    """Return a tokenizer as ModernBERT has it: bytes, normalized, with BERT's special tokens."""
    tokenizer = byte_bpe(BERT, False)
    tokenizer.normalizer = normalizers.NFC()
    pair = "[CLS]:0 $A:0 [SEP]:0 $B:0 [SEP]:0"
    template(tokenizer, "[CLS]:0 $A:0 [SEP]:0", pair, ("[CLS]", "[SEP]"))
    return tokenizer


def digits(tokenizer: Tokenizer) -> Tokenizer:
    """Divide numbers into digits, before all else."""
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [pre_tokenizers.Split(Regex(r"\p{N}"), "isolated"), tokenizer.pre_tokenizer]
    )
    return tokenizer


def full_width(tokenizer: Tokenizer) -> Tokenizer:
    """Write full-width characters narrow."""
    tokenizer.normalizer = normalizers.NFKC()
    return tokenizer


def bert_like(name: str, model_type: str, **normalizer: Any) -> Family:
    """Return a family that differs from BERT by its name; its configuration lacks all flags."""
    config = {**special(BERT), "tokenizer_class": name, "model_max_length": 512}
    return Family(lambda: word_piece(**normalizer), config, {"model_type": model_type})


FAMILIES = {
    "BERT, cased": bert_like("BertTokenizer", "bert", lowercase=False),
    "BERT, accents": bert_like("BertTokenizer", "bert", lowercase=True, strip_accents=False),
    "BERT, Chinese": bert_like("BertTokenizer", "bert", lowercase=False, handle_chinese_chars=False),
    "BERT, uncased": bert_like("BertTokenizer", "bert", lowercase=True),
    "DistilBERT": bert_like("DistilBertTokenizer", "distilbert", lowercase=False),
    "Electra": bert_like("ElectraTokenizer", "electra", lowercase=False),
    "MobileBERT": bert_like("MobileBertTokenizer", "mobilebert", lowercase=False),
    "SqueezeBERT": bert_like("SqueezeBertTokenizer", "squeezebert", lowercase=False),
    "MPNet": Family(
        mpnet,
        {**special({**ROBERTA, "unk": "[UNK]"}), "tokenizer_class": "MPNetTokenizer"},
        {"model_type": "mpnet"},
    ),
    "Funnel": Family(
        funnel, {**special(FUNNEL), "tokenizer_class": "FunnelTokenizer"}, {"model_type": "funnel"}
    ),
    "PreTrainedTokenizerFast": Family(
        lambda: word_piece(lowercase=False),
        {**special(BERT), "tokenizer_class": "PreTrainedTokenizerFast"},
        {"model_type": "bert"},
    ),
    "ModernBERT": Family(
        modernbert,
        {
            **special(BERT),
            "tokenizer_class": "PreTrainedTokenizerFast",
            "model_input_names": ["input_ids", "attention_mask"],
        },
        {"model_type": "modernbert"},
    ),
    "RoBERTa": Family(
        lambda: roberta(True),
        {**special(ROBERTA), "tokenizer_class": "RobertaTokenizer"},
        {"model_type": "roberta"},
    ),
    "Longformer": Family(
        lambda: roberta(True),
        {**special(ROBERTA), "tokenizer_class": "LongformerTokenizer"},
        {"model_type": "longformer"},
    ),
    "BART": Family(
        lambda: roberta(True),
        {**special(ROBERTA), "tokenizer_class": "BartTokenizer"},
        {"model_type": "bart"},
    ),
    "GPT-2": Family(
        lambda: byte_bpe({"eos": "<|endoftext|>"}, True),
        {
            "tokenizer_class": "GPT2Tokenizer",
            "eos_token": "<|endoftext|>",
            "pad_token": "<|endoftext|>",
            "padding_side": "left",
        },
        {"model_type": "gpt2"},
    ),
    "DeBERTa": Family(
        deberta,
        {**special(BERT), "tokenizer_class": "DebertaTokenizer"},
        {"model_type": "deberta", "type_vocab_size": 0},
    ),
    "DeBERTa v3": Family(
        deberta_v2,
        {
            **special(BERT),
            "do_lower_case": False,
            "split_by_punct": False,
            "tokenizer_class": "DebertaV2Tokenizer",
        },
        {"model_type": "deberta-v2", "type_vocab_size": 0},
    ),
    "ALBERT, cased": Family(
        lambda: albert(False),
        {**special(ALBERT), "tokenizer_class": "AlbertTokenizer"},
        {"model_type": "albert"},
    ),
    "ALBERT": Family(
        lambda: albert(True),
        {
            **special(ALBERT),
            "do_lower_case": True,
            "keep_accents": False,
            "tokenizer_class": "AlbertTokenizer",
        },
        {"model_type": "albert"},
    ),
    "RemBERT": Family(
        rembert, {**special(ALBERT), "tokenizer_class": "RemBertTokenizer"}, {"model_type": "rembert"}
    ),
    "BigBird": Family(
        lambda: unigram(ALBERT, steps(SPM), BERT_TEMPLATE),
        {**special(ALBERT), "tokenizer_class": "BigBirdTokenizer"},
        {"model_type": "big_bird"},
    ),
    "Barthez": Family(
        lambda: unigram(ROBERTA, steps(SPM), XLMR_TEMPLATE),
        {**special(ROBERTA), "tokenizer_class": "BarthezTokenizer"},
        {"model_type": "mbart"},
    ),
    "CamemBERT": Family(
        lambda: unigram(ROBERTA, steps(SPM), XLMR_TEMPLATE),
        {**special(ROBERTA), "tokenizer_class": "CamembertTokenizer"},
        {"model_type": "camembert"},
    ),
    "XLM-R": Family(
        lambda: unigram(ROBERTA, steps(SPM), XLMR_TEMPLATE),
        {**special(ROBERTA), "tokenizer_class": "XLMRobertaTokenizer"},
        {"model_type": "xlm-roberta"},
    ),
    "T5": Family(
        lambda: unigram({"pad": "<pad>", "eos": "</s>", "unk": "<unk>"}, steps(SPM), T5_TEMPLATE),
        {"tokenizer_class": "T5Tokenizer", "eos_token": "</s>", "unk_token": "<unk>", "pad_token": "<pad>"},
        {"model_type": "t5"},
    ),
    "XLNet": Family(
        xlnet,
        {**special(XLNET), "tokenizer_class": "XLNetTokenizer", "padding_side": "left"},
        {"model_type": "xlnet"},
    ),
    # public reports of tokens that transformers 5 changed
    "transformers#45701": Family(  # CamemBERT v2: WordPiece in RoBERTa's class
        lambda: word_piece({**ROBERTA, "unk": "[UNK]"}, XLMR_TEMPLATE, lowercase=False),
        {**special({**ROBERTA, "unk": "[UNK]"}), "tokenizer_class": "RobertaTokenizer"},
        {"model_type": "roberta"},
    ),
    "transformers#45812": Family(  # Granite: GPT-2's class, with numbers divided into digits
        lambda: digits(byte_bpe({"eos": "<|end|>", "pad": "<|pad|>"}, False)),
        {"tokenizer_class": "GPT2Tokenizer", "eos_token": "<|end|>", "pad_token": "<|pad|>"},
        {"model_type": "granite"},
    ),
    "transformers#45920": Family(  # DeepSeek: the class of Llama, with bytes
        lambda: digits(byte_bpe({"bos": "<|begin|>", "pad": "<|pad|>"}, False)),
        {
            "tokenizer_class": "LlamaTokenizerFast",
            "bos_token": {"__type": "AddedToken", "content": "<|begin|>"},
            "pad_token": "<|pad|>",
        },
        {"model_type": "llama"},
    ),
    "transformers#44462": Family(  # DeepSeek Coder: a normalizer and digits that its class does not have
        lambda: full_width(digits(byte_bpe({"bos": "<|begin|>", "pad": "<|pad|>"}, False))),
        {"tokenizer_class": "LlamaTokenizer", "bos_token": "<|begin|>", "pad_token": "<|pad|>"},
        {"model_type": "llama"},
    ),
}
