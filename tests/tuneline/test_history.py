import json

import pytest

from tests.tuneline.made import Made
from tuneline.history import CLASSIFIER, Lock, cached, commit_of, earlier, git, read_lock, registered


def metrics(made) -> dict[str, float]:
    return json.loads((made.root / "metrics/evaluate.json").read_text())


def test_the_commit_is_the_one_that_brought_the_version_not_the_newest(made):
    first = made.git("rev-parse", "HEAD")
    (made.root / "README.md").write_text("later\n")
    made.commit("Write about it")
    found = commit_of(made.root, read_lock(made.root).out(CLASSIFIER))
    assert (found.sha, found.subject) == (first, "Run the line")


def test_a_version_that_is_not_committed_has_no_commit(made):
    made.lock(seed=2)
    assert commit_of(made.root, read_lock(made.root).out(CLASSIFIER)) is None


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


def names(made) -> list[str]:
    version = read_lock(made.root).out(CLASSIFIER)
    return registered(made.root, version, commit_of(made.root, version))


def test_a_models_names_are_those_of_its_own_version(made):
    made.git("tag", "onnx@v0.1.0")
    made.git("tag", "onnx#production#1")
    assert names(made) == ["onnx@v0.1.0", "onnx#production"]
    made.line(skill=3.0, seed=2).commit("Learn more")
    assert names(made) == []
    made.git("tag", "--annotate", "onnx@v0.2.0", "--message", "second")
    made.git("tag", "unrelated")
    assert names(made) == ["onnx@v0.2.0"]


def test_a_model_that_was_replaced_is_in_production_no_more_and_after_a_rollback_again(made):
    first = made.git("rev-parse", "HEAD")
    made.git("tag", "onnx#production#1")
    made.line(skill=3.0, seed=2).commit("Learn more")
    made.git("tag", "onnx#production#2")
    assert names(made) == ["onnx#production"]
    made.git("checkout", "--quiet", first)
    assert names(made) == []
    made.git("tag", "onnx#production#3")
    assert names(made) == ["onnx#production"]


@pytest.mark.parametrize("text", ["", "[]", "stages: null", "{ broken", "schema: '2.0'"])
def test_a_lock_that_says_nothing_has_nothing(text):
    lock = Lock(text)
    assert lock.out(CLASSIFIER) is None
    assert lock.params() == {}
    assert lock.code() == {}


def test_a_folder_without_git_has_no_history(tmp_path, monkeypatch):
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(tmp_path.parent))
    assert git(tmp_path, "status") == ""
    assert earlier(tmp_path, {"accuracy": 1.0}) is None


def test_two_projects_with_one_history_share_nothing_else(tmp_path):
    """The builder itself: what these tests stand on must be a repository of its own."""
    made = Made(tmp_path).line()
    assert made.git("rev-parse", "--show-toplevel") == str(tmp_path)
