from collections import Counter
from dataclasses import replace

import numpy as np
import pytest

from tests.tuneline.operations.adoption.conftest import planned
from tuneline.checks.text_lengths import TextLengths
from tuneline.core.params.loading import load_params
from tuneline.operations.adoption.checkpoints import Lengths, open_checkpoint
from tuneline.operations.adoption.recipe import fine_tuning, plan_long_texts
from tuneline.operations.adoption.rows import SplitRows


@pytest.fixture
def plan(tickets):
    return planned(tickets)


@pytest.fixture
def opened(checkpoint):
    return open_checkpoint(checkpoint, None)


def of_rows(plan, *, task="classification", classes=1, **rows):
    """Return the plan with other numbers of rows, of a kind of task."""
    used = SplitRows({**plan.rows.splits, **rows}, Counter({str(label): 1 for label in range(classes)}))
    reading = replace(plan.decision.reading, task=task)
    return replace(plan, rows=used, decision=replace(plan.decision, reading=reading))


def of_train(**values):
    """Return the parameters with values of the section ``train``."""
    params = load_params()
    return params.model_copy(update={"train": params.train.model_copy(update=values)})


def lengths(*tokens, limit=512):
    """Lengths of rows of one text with two special tokens."""
    return Lengths(TextLengths.of_texts([np.array(tokens) - 2], 2), limit)


@pytest.mark.parametrize(
    ("rows", "classes", "task", "batch", "epochs", "evaluate_every_steps"),
    [
        (100, 1, "classification", 16, 8, None),
        (20_000, 1, "classification", 32, 3, None),
        (320_000, 1, "classification", 32, 1, 2500),
        (3_200, 500, "classification", 16, 3, None),
        (3_200, 1, "multilabel", 16, 3, None),
        (1_000, 1, "regression", 16, 4, None),
    ],
)
def test_few_rows_and_many_labels_get_more_epochs(  # noqa: PLR0917
    plan, opened, rows, classes, task, batch, epochs, evaluate_every_steps
):
    values, reasons = fine_tuning(
        opened, lengths(30), of_rows(plan, train=rows, classes=classes, task=task), load_params()
    )
    assert values["train.global_batch_size"] == batch
    assert values["train.epochs"] == epochs
    assert values["train.evaluate_every_steps"] == evaluate_every_steps
    assert values["model.head"] == "auto"
    assert any(reason.startswith(f"{epochs} epochs") for reason in reasons)


@pytest.mark.parametrize(
    ("width", "rate"), [(128, 2e-4), (384, 2e-4), (768, 3e-5), (1024, 1e-5), (2048, 6e-6)]
)
def test_wider_models_get_lower_learning_rates(plan, opened, width, rate):
    values, _ = fine_tuning(replace(opened, config={"hidden_size": width}), lengths(30), plan, load_params())
    assert values["train.learning_rate"] == rate


@pytest.mark.parametrize(("width", "rate"), [(384, 1e-4), (768, 3e-5)])
def test_pairs_get_a_rate_for_a_head_that_begins_at_random(plan, opened, width, rate):
    pairs = replace(plan, decision=replace(plan.decision, text_columns=("first", "second")))
    values, _ = fine_tuning(replace(opened, config={"hidden_size": width}), lengths(30), pairs, load_params())
    assert values["train.learning_rate"] == rate


@pytest.mark.parametrize(
    ("columns", "task", "rows", "share"),
    [
        (("text",), "classification", 639, 0.5),
        (("text",), "classification", 640, 0.0),
        (("first", "second"), "classification", 100, 0.0),
        (("text",), "regression", 100, 0.0),
        (("text",), "multilabel", 100, 0.0),
    ],
)
def test_few_rows_of_a_class_are_learned_by_their_pairs_too(plan, opened, columns, task, rows, share):  # noqa: PLR0917
    plan = of_rows(plan, task=task, classes=10, train=rows)
    plan = replace(plan, decision=replace(plan.decision, text_columns=columns))
    values, reasons = fine_tuning(opened, lengths(30), plan, of_train())
    assert values["train.contrastive"] == share
    assert ("contrastive loss" in "\n".join(reasons)) == bool(share)


@pytest.mark.parametrize(("tokens", "size"), [(256, 16), (512, 8), (8192, 1)])
def test_micro_batches_of_long_texts_have_fewer_rows(plan, opened, tokens, size):
    opened = replace(opened, config={"hidden_size": 768, "num_hidden_layers": 12})
    values, _ = fine_tuning(opened, lengths(tokens, limit=8192), plan, load_params())
    assert values["train.micro_batch_size"] == size


@pytest.mark.parametrize(
    ("rows", "task", "before", "keep", "smoothing"),
    [
        (499, "classification", {}, "last", 0.1),
        (500, "classification", {}, "best", 0.0),
        (40, "classification", {"label_smoothing": 0.2}, "last", 0.2),
        (40, "regression", {"label_smoothing": 0.2}, "last", 0.0),
    ],
)
def test_few_validation_rows_do_not_choose_among_the_epochs(  # noqa: PLR0917
    plan, opened, rows, task, before, keep, smoothing
):
    values, reasons = fine_tuning(
        opened, lengths(30), of_rows(plan, validation=rows, task=task), of_train(**before)
    )
    assert (values["train.keep"], values["train.label_smoothing"]) == (keep, smoothing)
    assert f"{keep} weights" in "\n".join(reasons)


@pytest.mark.parametrize(
    ("tokens", "kind", "max_windows", "limit"),
    [
        ([100] * 96 + [2000] * 4, "truncate", None, None),
        ([100] * 95 + [2000] * 5, "windows", 2, None),
        ([900] * 100, "windows", 2, None),
        ([9000] * 100, "truncate", None, 1.0),
    ],
)
def test_long_texts_are_read_in_windows_unless_they_are_few_or_too_long(
    plan, tokens, kind, max_windows, limit
):
    rows = of_rows(plan, train=8000, validation=1000, test=1000)
    values, reasons = plan_long_texts(lengths(*tokens).rows, 512, rows, load_params())
    assert values["tokenize.long_text"] == kind
    assert values.get("tokenize.windows.max_windows") == max_windows
    assert values.get("validate.truncation_rate") == limit
    assert ("docs/long-documents.md" in "\n".join(reasons)) == (kind != "truncate" or limit is not None)
