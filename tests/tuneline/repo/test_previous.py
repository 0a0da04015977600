import json

from tuneline.repo.history import git, read_lock
from tuneline.repo.previous import cached_file, find_previous


def metrics(project) -> dict[str, float]:
    return json.loads((project.root / "metrics/evaluate.json").read_text())


def test_previous_result_of_a_committed_result_is_from_the_commit_before(project):
    before = metrics(project)
    project.run_pipeline(skill=3.0, seed=2).commit("Learn more")
    previous = find_previous(project.root, metrics(project))
    assert (previous.commit.subject, previous.metrics, previous.comparable) == ("Run the pipeline", before, True)


def test_previous_result_of_an_uncommitted_result_is_from_the_newest_commit(project):
    project.run_pipeline(skill=3.0, seed=2)
    assert find_previous(project.root, metrics(project)).commit.subject == "Run the pipeline"


def test_first_result_has_no_previous_result(project):
    assert find_previous(project.root, metrics(project)) is None


def test_commits_with_the_same_metrics_are_skipped(project):
    (project.root / "README.md").write_text("later\n")
    project.commit("Write about it")
    project.run_pipeline(skill=3.0, seed=2).commit("Learn more")
    assert find_previous(project.root, metrics(project)).commit.subject == "Run the pipeline"


def test_reference_sets_the_commit(project):
    project.git("branch", "base")
    project.run_pipeline(skill=3.0, seed=2).commit("Learn more")
    project.run_pipeline(skill=4.0, seed=3).commit("Learn even more")
    assert find_previous(project.root, metrics(project), "base").commit.subject == "Run the pipeline"


def test_results_on_other_rows_are_not_comparable(project):
    project.rows = 200
    project.run_pipeline(seed=2)
    assert not find_previous(project.root, metrics(project)).comparable


def test_results_on_another_split_are_not_comparable(project):
    project.change_params(**{"evaluate.split": "validation"})
    project.run_pipeline(skill=3.0, seed=2)
    assert not find_previous(project.root, metrics(project)).comparable


def test_file_of_the_previous_result_is_read_from_the_cache(project):
    content = (project.root / "plots/evaluation/roc.csv").read_bytes()
    project.run_pipeline(skill=3.0, seed=2)
    previous = find_previous(project.root, metrics(project))
    assert previous.file("plots/evaluation/roc.csv").read_bytes() == content
    assert previous.file("plots/evaluation/absent.csv") is None
    assert previous.file("models/classifier/config.json") is None, "its listing is not in the cache"


def test_cache_folder_of_the_dvc_config_is_used(project):
    (project.root / ".dvc/config").write_text("[cache]\n    dir = ../elsewhere\n")
    (project.root / ".dvc/cache").rename(project.root / "elsewhere")
    assert cached_file(project.root, read_lock(project.root).out("reports/predictions.parquet")) is not None


def test_folder_without_git_has_no_previous_result(tmp_path, monkeypatch):
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(tmp_path.parent))
    assert git(tmp_path, "status") == ""
    assert find_previous(tmp_path, {"accuracy": 1.0}) is None
