"""The words of the verdict: the sentences that carry it say their numbers."""

import random
import re

import pytest
from typer.testing import CliRunner

from tests.tuneline.finished_project import FinishedProject
from tests.tuneline.page.verdict.random_runs import random_run
from tests.tuneline.page.verdict.runs import BEATEN, FINE_TUNED, SETS, against
from tuneline.cli import app
from tuneline.core.repository.dvc import read_lock
from tuneline.page.verdict.facts import RunFacts
from tuneline.page.verdict.rules import judge_run, next_steps

CODES = {
    "one_prediction", "undecided_leaked", "undecided_few", "not_above_uninformed", "not_above_majority",
    "not_above_simple_model", "good", "labels_per_row", "never_predicted", "chosen_head",
    "loss_does_not_fall", "still_improving", "overfitting", "leaks", "nothing_published", "left_out",
    "published_in_doubt", "not_above_frozen", "unknown_language",
}  # fmt: skip


def test_every_rule_finds_something_in_a_random_run_and_says_it_in_whole_sentences():
    generator = random.Random(0)
    codes = set()
    for _ in range(4000):
        run = random_run(generator)
        for finding in judge_run(run):
            codes.add(finding.code)
            assert not re.search(r"[{}]|None|\bnan\b", str(finding)), str(finding)
        for command, purpose in next_steps(run):
            assert command
            assert purpose
    assert codes == CODES


@pytest.mark.parametrize(
    ("run", "facts"),
    [
        (
            RunFacts(BEATEN | against("frozen", 0.85, 0.02, 0.08), params=FINE_TUNED),
            ("Accuracy", "0.900", "0.880", "0.920", "1,000 rows", "TF-IDF", "0.800", "+0.050", "+0.150"),
        ),
        (
            RunFacts(BEATEN | {"clusters": 510}),
            (
                "Accuracy",
                "0.900",
                "1,000 rows",
                "510 of them independent",
                "TF-IDF",
                "0.800",
                "+0.050",
                "+0.150",
            ),
        ),
        (
            RunFacts(BEATEN | against("tfidf", 0.93, -0.04, -0.02), params=FINE_TUNED),
            ("Accuracy", "0.900", "0.930", "-0.040", "-0.020"),
        ),
        (
            RunFacts(SETS | {"most_predicted_share": 1.0, "macro_f1": 0.2}, params=FINE_TUNED),
            ("Macro F1", "500", "0.200", "0.100", "train.epochs=6"),
        ),
    ],
)
def test_verdict_is_told_with_its_numbers(run, facts):
    text = str(judge_run(run)[0])
    assert [fact for fact in facts if fact not in text] == [], text


CLASSES = ("a", "b", "c")


@pytest.mark.parametrize(("names", "skill", "first"), [(CLASSES, 0.5, "bad"), (None, 2.0, "good")])
def test_report_card_and_show_say_the_same(tmp_path, monkeypatch, names, skill, first):
    monkeypatch.chdir(tmp_path)
    FinishedProject(tmp_path, names).run_pipeline(skill=skill).commit()
    findings = judge_run(RunFacts.read(tmp_path, read_lock(tmp_path).params()))
    assert findings[0].severity == first
    assert {finding.code for finding in findings} >= {"overfitting"}, "from the curves"
    assert CliRunner().invoke(app, ["report"]).exit_code == 0
    page = (tmp_path / "reports/index.html").read_text()
    card = (tmp_path / "reports/model_card.md").read_text().replace("\\", "")
    shown = CliRunner(env={"COLUMNS": "300"}).invoke(app, ["show"]).output
    assert f'<li class="{first}">{findings[0].sentence[:9]}' in page
    for said in findings:
        assert said.sentence.replace("'", "&#39;") in page
        assert str(said) in card
        assert str(said) in shown
