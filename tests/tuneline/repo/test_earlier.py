import json

from tuneline.repo.earlier import cached, earlier
from tuneline.repo.history import git, read_lock


def metrics(made) -> dict[str, float]:
    return json.loads((made.root / "metrics/evaluate.json").read_text())


def test_the_earlier_result_of_a_committed_one_is_that_of_the_commit_before(made):
    before = metrics(made)
    made.line(skill=3.0, seed=2).commit("Learn more")
    found = earlier(made.root, metrics(made))
    assert (found.commit.subject, found.metrics, found.comparable) == ("Run the line", before, True)


def test_the_earlier_result_of_an_uncommitted_one_is_the_newest_committed(made):
    made.line(skill=3.0, seed=2)
    assert earlier(made.root, metrics(made)).commit.subject == "Run the line"


def test_the_first_result_has_no_earlier_one(made):
    assert earlier(made.root, metrics(made)) is None


def test_commits_that_did_not_move_the_metrics_are_passed_over(made):
    (made.root / "README.md").write_text("later\n")
    made.commit("Write about it")
    made.line(skill=3.0, seed=2).commit("Learn more")
    assert earlier(made.root, metrics(made)).commit.subject == "Run the line"


def test_another_commit_can_be_named(made):
    made.git("branch", "base")
    made.line(skill=3.0, seed=2).commit("Learn more")
    made.line(skill=4.0, seed=3).commit("Learn even more")
    assert earlier(made.root, metrics(made), "base").commit.subject == "Run the line"


def test_results_on_other_rows_are_not_comparable(made):
    made.rows = 200
    made.line(seed=2)
    assert not earlier(made.root, metrics(made)).comparable


def test_results_on_another_split_are_not_comparable(made):
    made.change_params(**{"evaluate.split": "validation"})
    made.line(skill=3.0, seed=2)
    assert not earlier(made.root, metrics(made)).comparable


def test_a_file_of_then_is_found_in_the_cache(made):
    content = (made.root / "plots/evaluation/roc.csv").read_bytes()
    made.line(skill=3.0, seed=2)
    before = earlier(made.root, metrics(made))
    assert before.file("plots/evaluation/roc.csv").read_bytes() == content
    assert before.file("plots/evaluation/absent.csv") is None
    assert before.file("models/classifier/config.json") is None, "its listing is not in the cache"


def test_the_cache_may_lie_elsewhere(made):
    (made.root / ".dvc/config").write_text("[cache]\n    dir = ../elsewhere\n")
    (made.root / ".dvc/cache").rename(made.root / "elsewhere")
    assert cached(made.root, read_lock(made.root).out("reports/predictions.parquet")) is not None


def test_a_folder_without_git_has_no_history(tmp_path, monkeypatch):
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(tmp_path.parent))
    assert git(tmp_path, "status") == ""
    assert earlier(tmp_path, {"accuracy": 1.0}) is None
