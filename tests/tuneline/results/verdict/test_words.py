"""The words: there are some for every code, and the sentences that carry the verdict say their numbers."""

import random
import re

import pytest
from typer.testing import CliRunner

from tests.tuneline.finished_project import FinishedProject
from tests.tuneline.results.verdict.random_runs import random_run
from tests.tuneline.results.verdict.runs import BEATEN, FALLING, FINE_TUNED, OVERFIT, SETS, against
from tuneline.cli import app
from tuneline.repository.dvc import read_lock
from tuneline.results.verdict.facts import RunFacts
from tuneline.results.verdict.finding import Finding
from tuneline.results.verdict.next_steps import NextStep, next_steps
from tuneline.results.verdict.rules import judge_errors, judge_run
from tuneline.results.verdict.words import ADVICE, PURPOSES, SENTENCES, purpose, statement, statements


def test_every_code_has_words_and_all_words_have_a_code():
    generator = random.Random(0)
    findings: list[Finding] = []
    steps: list[NextStep] = []
    for _ in range(4000):
        run = random_run(generator)
        findings += judge_run(run)
        steps += next_steps(run)
    for errors in ([0.5], [0.95], [0.95] * 40):
        finding = judge_errors([0.95] * 100, errors)
        assert finding is not None
        findings.append(finding)

    codes = set()
    advice: set[str] = set()
    for finding in findings:
        codes.add(finding.code)
        advice.update(finding.advice)
        text = str(statement(finding))
        assert not re.search(r"[{}]|None|\bnan\b", text), text
    assert codes == SENTENCES.keys(), "each code is found in a random run (random_runs.py), and has words"
    assert advice == ADVICE.keys()
    assert {step.code for step in steps} == PURPOSES.keys()


@pytest.mark.parametrize(
    ("run", "sentence"),
    [
        (
            RunFacts(BEATEN | against("frozen", 0.85, 0.02, 0.08), params=FINE_TUNED),
            "Good: Accuracy 0.900 (95 % interval 0.880 to 0.920) on 1,000 rows, clearly above the frozen"
            " checkpoint, the best of the simple models (0.850, difference +0.020 to +0.080).",
        ),
        (
            RunFacts(BEATEN | {"clusters": 510}, params={"data.split": {"by": "customer"}}),
            "Good: Accuracy 0.900 (95 % interval 0.880 to 0.920) on 1,000 rows, 510 groups, clearly above"
            " TF-IDF, the best of the simple models (0.800, difference +0.050 to +0.150).",
        ),
        (
            RunFacts(BEATEN | against("frozen", 0.93, -0.04, -0.02), params=FINE_TUNED),
            "The model is worse than the frozen checkpoint: Accuracy 0.900 against 0.930, 95 % interval of"
            " the difference -0.040 to -0.020. Use the frozen checkpoint (tuneline run model.head=frozen), or"
            " get more data.",
        ),
        (
            RunFacts(SETS | {"most_predicted_share": 1.0, "macro_f1": 0.2}, params=FINE_TUNED),
            "The model predicts the same set of labels for all 500 rows: it has learned nothing from the"
            " texts (Macro F1 0.200, the majority baseline 0.100). Train longer (train.epochs=6) or with a"
            " lower learning rate (it was 0.0001).",
        ),
    ],
)
def test_verdict_is_told_with_its_numbers(run, sentence):
    assert str(statements(judge_run(run))[0]) == sentence


def test_overfitting_names_the_epoch():
    training = {"steps": 300, "best_step": 100}
    run = RunFacts(BEATEN, params=FINE_TUNED, validation=OVERFIT, losses=FALLING, training=training)
    assert str(statements(judge_run(run))[-1]) == (
        "The model overfits since epoch 1: the validation loss rises from 0.500 to 0.800, the training loss"
        " falls. The weights before that were kept. train.epochs=1 takes less time."
    )


LEAKS = {
    "accuracy": 0.823,
    "accuracy_without_leaks": 0.792,
    "accuracy_without_leaks_low": 0.771,
    "accuracy_without_leaks_high": 0.813,
    "accuracy_from_leaks_low": 0.026,
    "accuracy_from_leaks_high": 0.035,
    "rows": 1725,
}


@pytest.mark.parametrize(
    ("leaked", "sentence"),
    [
        (
            271,
            "271 of 1,725 rows (15.7%) repeat or resemble a row of an earlier split. Accuracy without them:"
            " 0.792 (95 % interval 0.771 to 0.813). They raise it: +0.031 (95 % interval +0.026 to +0.035)."
            " Trust the metric without them; docs/data-checks.md says how to leave them out.",
        ),
        (
            1,
            "1 of 1,725 rows (0.1%) repeats or resembles a row of an earlier split. Accuracy without it:"
            " 0.792 (95 % interval 0.771 to 0.813). This row raises it: +0.031 (95 % interval +0.026 to"
            " +0.035). Trust the metric without it; docs/data-checks.md says how to leave them out.",
        ),
    ],
)
def test_leaked_rows_are_told_in_the_singular_and_in_the_plural(leaked, sentence):
    (finding,) = judge_run(RunFacts(LEAKS | {"leaked_rows": leaked}))
    assert str(statement(finding)) == sentence


def test_finding_on_the_rows_without_leaks_begins_with_that():
    numbers = {"precision": "fp32", "reasons": ["a", "b"]}
    finding = Finding("left_out", "note", numbers, of_clean_rows=True)
    assert statement(finding).sentence.startswith(
        "Without rows that repeat or resemble a row of an earlier split: The fp32 model is not published"
    )
    assert statement(finding).sentence.endswith("the trained one: a; b.")


@pytest.mark.parametrize(
    ("seconds", "words"),
    [
        (None, "train twice as long"),
        (89, "train twice as long (about 89 s)"),
        (467, "train twice as long (about 8 min)"),
    ],
)
def test_next_step_is_told_with_its_cost(seconds, words):
    assert purpose(NextStep("twice_as_long", "tuneline run train.epochs=6", seconds)) == words


CLASSES = ("a", "b", "c")


@pytest.mark.parametrize(
    ("names", "skill", "first"), [(CLASSES, 6.0, "good"), (CLASSES, 0.5, "bad"), (None, 2.0, "good")]
)
def test_report_card_and_show_say_the_same(tmp_path, monkeypatch, names, skill, first):
    monkeypatch.chdir(tmp_path)
    FinishedProject(tmp_path, names).run_pipeline(skill=skill).commit()
    findings = judge_run(RunFacts.read(tmp_path, read_lock(tmp_path).params()))
    assert findings[0].severity == first
    assert {finding.code for finding in findings} >= {"overfitting"}, "from the curves"
    verdict = statements(findings)
    assert CliRunner().invoke(app, ["report", "--no-latency"]).exit_code == 0
    page = (tmp_path / "reports/index.html").read_text()
    card = (tmp_path / "reports/model_card.md").read_text().replace("\\", "")
    shown = CliRunner(env={"COLUMNS": "300"}).invoke(app, ["show"]).output
    assert f'<li class="{first}">{verdict[0].sentence[:9]}' in page
    for said in verdict:
        assert said.sentence.replace("'", "&#39;") in page
        assert str(said) in card
        assert str(said) in shown
