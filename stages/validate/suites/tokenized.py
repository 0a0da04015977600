"""What is expected of a tokenized split: that it is what this tokenizer makes of the raw one."""

from collections.abc import Collection, Iterator

from great_expectations.expectations.expectation import Expectation

from stages.validate.expectations import ExpectColumnShareOfTotalToBeAtMost, ExpectTableRowCountToEqual
from stages.validate.suites.table import between, equal, expect, one_of
from stages.validate.vocabulary import Vocabulary
from tuneline.files.schemas import LABELS
from tuneline.params import ValidateParams

RAW_LABELS = "raw_labels"
DECODED = "decoded"


def tokenized_suite(
    params: ValidateParams, vocabulary: Vocabulary, max_length: int, raw_rows: int, columns: Collection[str]
) -> list[Expectation]:
    """What is expected of one tokenized split.

    Args:
        params: Severities and thresholds.
        vocabulary: Of the tokenizer.
        max_length: Tokens that a row may have.
        raw_rows: Rows of the raw split.
        columns: Of the table of scalar columns.
    """
    share = {"column": "unknown_tokens", "total": "content_tokens", "max_value": params.unknown_rate.max}
    said = f"unknown tokens must make up at most {params.unknown_rate.max:.4g} of all tokens that are not special."
    suite = [
        expect(ExpectTableRowCountToEqual, "row_count", params, value=raw_rows),
        between(params, "ids_in_vocabulary", "smallest_id", 0, None),
        between(params, "ids_in_vocabulary", "largest_id", None, vocabulary.largest_id),
        *_special_tokens(params, vocabulary),
        between(params, "max_length", "tokens", None, max_length),
        equal(params, "column_lengths", "tokens", "mask_tokens"),
        between(params, "attention_mask", "smallest_mask", 1, None),
        between(params, "attention_mask", "largest_mask", None, 1),
        between(params, "empty_rows", "content_tokens", 1, None),
        expect(ExpectColumnShareOfTotalToBeAtMost, "unknown_rate", params, description=said, **share),
        between(params, "truncation_rate", "tokens", None, max_length - 1),
    ]
    if "type_tokens" in columns:
        suite += _token_types(params, vocabulary)
    if RAW_LABELS in columns:
        suite.append(equal(params, "token_labels", LABELS, RAW_LABELS))
    if DECODED in columns:
        suite.append(one_of(params, "decoded_text", DECODED, [1]))
    return suite


def _special_tokens(params: ValidateParams, vocabulary: Vocabulary) -> Iterator[Expectation]:
    for column, token in (("first_id", vocabulary.first_id), ("last_id", vocabulary.last_id)):
        if token is not None:
            yield one_of(params, "special_tokens", column, [token])
    wanted = len(vocabulary.template)
    yield between(params, "special_tokens", "special_tokens", wanted, wanted)


def _token_types(params: ValidateParams, vocabulary: Vocabulary) -> Iterator[Expectation]:
    yield equal(params, "column_lengths", "tokens", "type_tokens")
    yield between(params, "token_type_ids", "smallest_type", 0, None)
    yield between(params, "token_type_ids", "largest_type", None, vocabulary.largest_type_id)
    yield between(params, "token_type_ids", "type_drops", None, 0)
