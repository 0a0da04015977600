from collections import Counter
from dataclasses import replace

import numpy as np
import pytest

from tuneline.cli.init import make_plan, planning
from tuneline.cli.init.class_counts import SplitCounts
from tuneline.cli.init.recipe import (
    Lengths,
    epochs_reason,
    estimated_tokens,
    fine_tuning,
    from_scratch,
    open_checkpoint,
)
from tuneline.model.text_lengths import TextLengths
from tuneline.params.loading import load_params


def with_task(decision, task):
    return replace(decision, reading=replace(decision.reading, task=task))


@pytest.fixture
def plan(tickets):
    return make_plan([tickets], planning.UserChoices(), load_params(), may_ask=False)


def of_rows(plan, rows):
    return replace(plan, counts={**plan.counts, "train": SplitCounts(rows, Counter(a=rows))})


def lengths(*tokens, limit=512):
    """Lengths of rows of one text with two special tokens."""
    contents = np.array(tokens) - 2
    return Lengths(TextLengths.of_texts([contents], 2), limit)


@pytest.mark.parametrize(
    ("rows", "expected"),
    [
        (100, (16, 16, None)),
        (1_000, (16, 5, None)),
        (3_668, (16, 3, None)),
        (20_000, (32, 3, None)),
        (320_000, (32, 1, 2500)),
    ],
)
def test_small_data_gets_more_epochs_and_large_data_one_with_several_evaluations(
    plan, checkpoint, rows, expected
):
    params = fine_tuning(
        open_checkpoint(checkpoint, None), lengths(30), of_rows(plan, rows), load_params()
    ).params
    assert (
        params["train.global_batch_size"],
        params["train.epochs"],
        params["train.evaluate_every_steps"],
    ) == expected


@pytest.mark.parametrize(("classes", "epochs"), [(4, 3), (20, 4), (39, 8), (500, 10)])
def test_many_classes_get_more_steps(plan, checkpoint, classes, epochs):
    counts = SplitCounts(3_200, Counter({str(number): 1 for number in range(classes)}))
    many = replace(plan, counts={**plan.counts, "train": counts})
    recipe = fine_tuning(open_checkpoint(checkpoint, None), lengths(30), many, load_params())
    assert recipe.params["train.epochs"] == epochs


@pytest.mark.parametrize(("rows", "epochs"), [(100, 16), (3_200, 10), (20_000, 4), (320_000, 1)])
def test_several_labels_get_more_steps(plan, checkpoint, rows, epochs):
    sets = replace(of_rows(plan, rows), decision=with_task(plan.decision, "multilabel"))
    recipe = fine_tuning(open_checkpoint(checkpoint, None), lengths(30), sets, load_params())
    assert recipe.params["train.epochs"] == epochs
    if epochs > 1:
        assert any("2,000 steps" in reason for reason in recipe.reasons)


@pytest.mark.parametrize(
    ("width", "rate"), [(128, 1e-4), (384, 5e-5), (768, 3e-5), (1024, 1e-5), (2048, 6e-6)]
)
def test_wider_models_get_lower_learning_rates(plan, checkpoint, width, rate):
    opened = open_checkpoint(checkpoint, None)
    params = fine_tuning(
        replace(opened, config={"hidden_size": width}), lengths(30), plan, load_params()
    ).params
    assert params["train.learning_rate"] == rate


@pytest.mark.parametrize(
    ("launch", "given", "proposed"),
    [
        ("auto", None, "auto"),
        ("cpu", None, "auto"),
        ("auto", "no", "no"),
        ("gpu", None, None),
        ("gpu", "bf16", "bf16"),
    ],
)
def test_precision_is_left_to_a_measurement_unless_the_user_chose_it(
    plan, checkpoint, launch, given, proposed
):
    params = load_params()
    params = params.model_copy(
        update={"train": params.train.model_copy(update={"launch": launch, "mixed_precision": given})}
    )
    fine_tuned = fine_tuning(open_checkpoint(checkpoint, None), lengths(30), plan, params).params
    assert fine_tuned["train.mixed_precision"] == proposed
    assert from_scratch(plan, params).params["train.mixed_precision"] == proposed


@pytest.mark.parametrize(("unknown", "named"), [(0.01, False), (0.2, True)])
def test_checkpoint_of_another_language_is_named(plan, checkpoint, unknown, named):
    measured = replace(lengths(30), unknown=unknown)
    reasons = fine_tuning(open_checkpoint(checkpoint, None), measured, plan, load_params()).reasons
    assert any("Take a multilingual checkpoint" in reason for reason in reasons) == named


@pytest.mark.parametrize(("tokens", "size"), [(100, 16), (256, 16), (512, 8), (8192, 1)])
def test_micro_batches_of_long_texts_have_fewer_rows(plan, checkpoint, tokens, size):
    opened = replace(open_checkpoint(checkpoint, None), config={"hidden_size": 768, "num_hidden_layers": 12})
    params = fine_tuning(opened, lengths(tokens, limit=8192), plan, load_params()).params
    assert (params["train.global_batch_size"], params["train.micro_batch_size"]) == (16, size)


@pytest.mark.parametrize(
    ("epochs", "steps_per_epoch", "least", "message"),
    [
        (16, 94, 2_000, "the most, although they make fewer than the usual 2,000 steps"),
        (5, 63, 300, "they make at least 300 steps"),
        (3, 250, 300, "the fewest"),
    ],
)
def test_epochs_reason_does_not_contradict_its_steps(epochs, steps_per_epoch, least, message):
    reason = epochs_reason(epochs, steps_per_epoch, least)
    assert reason == f"{epochs} epochs, {epochs * steps_per_epoch:,} steps: {message}"


def test_truncation_check_allows_what_a_split_may_have_by_chance(plan, checkpoint):
    """15 % of the sample fill the model, so a split of a few dozen rows may have more than 20 %."""
    opened, params = open_checkpoint(checkpoint, None), load_params()
    measured = lengths(*[30] * 85, *[30_000] * 15)
    small = replace(plan, counts={**plan.counts, "validation": SplitCounts(40, Counter(a=40))})
    large = replace(plan, counts={name: SplitCounts(9_000, Counter(a=1)) for name in plan.counts})
    large = replace(large, sample=list(plan.sample) * 100)
    assert fine_tuning(opened, measured, small, params).params["validate.truncation_rate"] > 0.3
    assert "validate.truncation_rate" not in fine_tuning(opened, measured, large, params).params


def test_rows_of_exactly_the_limit_count_as_the_data_check_counts_them(plan, checkpoint):
    opened, params = open_checkpoint(checkpoint, None), load_params()
    exact = fine_tuning(opened, lengths(*[30] * 60, *[512] * 40), plan, params)
    assert exact.params["validate.truncation_rate"] > 0.4


@pytest.mark.parametrize(
    ("text", "least"),
    [("a short sentence", 5), ("1.5;2.5;3.5;4.5", 15), ("Donaudampfschifffahrtsgesellschaft", 6)],
)
def test_estimated_tokens_count_marks_and_parts_of_long_words(text, least):
    assert estimated_tokens(text) >= least


def test_truncation_check_is_widened_only_where_long_texts_lose_tokens_all_the_same(plan, checkpoint):
    opened, params = open_checkpoint(checkpoint, None), load_params()
    short = fine_tuning(opened, lengths(*[30] * 100), plan, params)
    long = fine_tuning(opened, lengths(*[30] * 60, *[900] * 40), plan, params)
    very_long = fine_tuning(opened, lengths(*[30] * 60, *[30_000] * 40), plan, params)
    assert "validate.truncation_rate" not in short.params
    assert "validate.truncation_rate" not in long.params, "windows read them whole"
    assert very_long.params["validate.truncation_rate"] > 0.4
    assert "40% of the rows lose tokens all the same" in "\n".join(very_long.reasons)


def test_long_texts_are_said_with_the_length_of_the_model(plan, checkpoint):
    opened, params = open_checkpoint(checkpoint, None), load_params()
    windows = fine_tuning(opened, lengths(*[30] * 60, *[900] * 40), plan, params)
    whole = fine_tuning(opened, lengths(*[30] * 60, *[900] * 40, limit=8192), plan, params)
    assert windows.params["tokenize.long_text"] == "windows"
    assert windows.params["tokenize.windows.max_windows"] == 2
    assert "max_length 512: 40.0% of rows are longer (the model takes no more)" in "\n".join(windows.reasons)
    assert (whole.params["tokenize.long_text"], whole.params["tokenize.max_length"]) == ("truncate", 904)
    assert "need no windows" in "\n".join(whole.reasons)


def test_windows_of_an_earlier_task_are_reset(plan, checkpoint):
    recipe = fine_tuning(open_checkpoint(checkpoint, None), lengths(30), plan, load_params())
    assert recipe.params["tokenize.long_text"] == "truncate"
    assert recipe.params["tokenize.windows.max_windows"] == 8


@pytest.mark.parametrize(("words", "kind"), [(20, "truncate"), (700, "windows"), (5000, "head_tail")])
def test_new_model_reads_long_texts_by_their_words(project, words, kind):
    rows = [f"word {'more ' * words}{number},{number % 2}\n" for number in range(40)]
    (project / "long.csv").write_text("text,label\n" + "".join(rows))
    plan = make_plan([project / "long.csv"], planning.UserChoices(), load_params(), may_ask=False)
    recipe = from_scratch(plan, load_params())
    assert recipe.params["tokenize.long_text"] == kind
    assert ("docs/long-documents.md" in "\n".join(recipe.reasons)) == (kind != "truncate")


def test_estimated_time_has_the_windows(plan, checkpoint):
    """A row of two windows takes twice the time of a row of one."""
    opened, params = open_checkpoint(checkpoint, None), load_params()
    whole = fine_tuning(opened, lengths(*[512] * 100), plan, params).long_texts
    windows = fine_tuning(opened, lengths(*[900] * 100), plan, params).long_texts
    assert (whole.inputs_per_row, windows.inputs_per_row) == (1, 2)
    assert windows.input_lengths.sum() == 200 * 467, "two windows of equal length for each row"


@pytest.mark.parametrize("columns", [["text"], ["text", "text"]])
def test_head_is_left_to_validation(plan, checkpoint, columns):
    plan = replace(plan, decision=replace(plan.decision, text_columns=columns))
    recipe = fine_tuning(open_checkpoint(checkpoint, None), lengths(30), plan, load_params())
    assert recipe.params["model.head"] == "auto"
    assert "validation decides which is published" in "\n".join(recipe.reasons)


@pytest.mark.parametrize(("rows", "keep"), [(40, "last"), (499, "last"), (500, "best")])
def test_few_validation_rows_do_not_choose_among_the_epochs(plan, checkpoint, rows, keep):
    counts = {**plan.counts, "validation": SplitCounts(rows, Counter(a=rows))}
    recipe = fine_tuning(
        open_checkpoint(checkpoint, None), lengths(30), replace(plan, counts=counts), load_params()
    )
    assert recipe.params["train.keep"] == keep
    assert recipe.params["train.label_smoothing"] == (0.1 if keep == "last" else 0.0)
    assert f"{keep} weights" in "\n".join(recipe.reasons)


def test_label_smoothing_of_the_user_stays_and_numbers_have_none(plan, checkpoint):
    params, opened = load_params(), open_checkpoint(checkpoint, None)
    own = params.model_copy(update={"train": params.train.model_copy(update={"label_smoothing": 0.2})})
    assert fine_tuning(opened, lengths(30), plan, own).params["train.label_smoothing"] == 0.2
    many = replace(plan, counts={**plan.counts, "validation": SplitCounts(500, Counter(a=500))})
    of_few_rows = params.model_copy(
        update={"train": params.train.model_copy(update={"label_smoothing": 0.1, "keep": "last"})}
    )
    assert fine_tuning(opened, lengths(30), many, of_few_rows).params["train.label_smoothing"] == 0.0, (
        "init wrote it for other data"
    )
    numbers = replace(plan, decision=with_task(plan.decision, "regression"))
    assert fine_tuning(opened, lengths(30), numbers, own).params["train.label_smoothing"] == 0.0


def test_several_labels_are_not_smoothed_unless_the_user_does(plan, checkpoint):
    params, opened = load_params(), open_checkpoint(checkpoint, None)
    few = {**plan.counts, "validation": SplitCounts(40, Counter(a=40))}
    sets = replace(plan, counts=few, decision=with_task(plan.decision, "multilabel"))
    assert fine_tuning(opened, lengths(30), sets, params).params["train.label_smoothing"] == 0.0
    own = params.model_copy(update={"train": params.train.model_copy(update={"label_smoothing": 0.2})})
    assert fine_tuning(opened, lengths(30), sets, own).params["train.label_smoothing"] == 0.2
