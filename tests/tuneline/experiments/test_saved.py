"""Finished experiments as git commits that DVC knows, in real repositories of git and DVC with a pipeline of
two quick stages."""

import json

from tests.tuneline.saved_experiments import ExperimentRepository
from tests.tuneline.two_stages import run, sh, skill
from tuneline.core.yaml_files import read_yaml
from tuneline.experiments.applying import delete
from tuneline.experiments.saved import find_experiment, resolve_revision, saved_experiments
from tuneline.repository.git import lock_at


def test_saved_experiment_has_parameters_and_metrics_of_the_training_only(repository):
    saved = run(repository, "better", skill(0.7))
    assert saved.params == {"skill": 0.7, "pause": 0.0}
    assert saved.metrics()["best_accuracy"] == 0.7
    assert saved.metrics("evaluate") == {}, "those of HEAD are of another model"
    assert set(saved.lock.stages) == {"train"}
    assert saved.record["seconds"] == 1.5
    assert (
        sh(repository, "git", "rev-parse", f"{saved.commit}^").strip()
        == sh(repository, "git", "rev-parse", "HEAD").strip()
    )


def test_entries_of_later_stages_stay_in_dvc_lock(repository):
    """Without them, ``dvc exp apply`` fails; they do not fit the model."""
    saved = run(repository, "better", skill(0.7))
    written = lock_at(repository, saved.commit)
    assert set(written.stages) == {"train", "evaluate"}
    assert written.out("predictions.txt")
    assert saved.lock.out("predictions.txt") is None


def test_whole_pipeline_keeps_all_metrics(repository):
    saved = run(repository, "tested", skill(0.7), target=None)
    assert saved.metrics("evaluate") == {"accuracy": 0.7}
    assert set(saved.lock.stages) == {"train", "evaluate"}


def test_dvc_lists_shows_and_applies_a_saved_experiment(repository):
    """And the next ``dvc repro`` computes what comes after the training, once."""
    run(repository, "lr=0.7", skill(0.7))
    assert "lr=0.7" in sh(repository, "dvc", "exp", "list", "--name-only")
    shown = json.loads(sh(repository, "dvc", "exp", "show", "--json"))
    names = {exp["name"]: exp["revs"][0]["data"] for rev in shown for exp in rev.get("experiments") or []}
    assert names["lr=0.7"]["metrics"]["metrics/train.json"]["data"]["best_accuracy"] == 0.7
    assert "accuracy" not in names["lr=0.7"]["metrics"].get("metrics/evaluate.json", {}).get("data", {})
    sh(repository, "dvc", "exp", "apply", "lr=0.7")
    assert read_yaml(repository / "params.yaml")["skill"] == 0.7
    assert (repository / "model.txt").read_text().startswith("skill 0.7")
    repro = sh(repository, "dvc", "repro")
    assert "Stage 'train' didn't change" in repro
    assert "Running stage 'evaluate'" in repro
    assert json.loads((repository / "metrics/evaluate.json").read_text()) == {"accuracy": 0.7}


def test_dvc_pushes_a_saved_experiment(repository, tmp_path):
    sh(repository, "git", "init", "--quiet", "--bare", str(tmp_path / "origin.git"))
    sh(repository, "git", "remote", "add", "origin", str(tmp_path / "origin.git"))
    (tmp_path / "shelf").mkdir()
    sh(repository, "dvc", "remote", "add", "--default", "shelf", str(tmp_path / "shelf"))
    saved = run(repository, "better", skill(0.7))
    sh(repository, "dvc", "exp", "push", "origin", "better")
    assert sh(tmp_path / "origin.git", "git", "rev-parse", saved.ref).strip() == saved.commit
    md5 = saved.lock.out("model.txt")
    assert (tmp_path / "shelf/files/md5" / md5[:2] / md5[2:]).is_file()


def test_experiments_are_found_by_name_and_the_one_on_head_first(tmp_path):
    made = ExperimentRepository(tmp_path)
    first = made.save("better", 0.7)
    sh(tmp_path, "git", "commit", "--quiet", "--allow-empty", "--message=Later")
    assert find_experiment(tmp_path, "better") == first
    second = made.save("better", 0.8)
    assert find_experiment(tmp_path, "better") == second
    assert resolve_revision(tmp_path, "better") == second.commit
    assert resolve_revision(tmp_path, "main") == sh(tmp_path, "git", "rev-parse", "main").strip()
    assert resolve_revision(tmp_path, "unknown") is None
    assert [experiment.name for experiment in saved_experiments(tmp_path)] == ["better", "better"]
    delete(second)
    assert saved_experiments(tmp_path) == [first]


def test_saving_again_replaces_the_experiment(tmp_path):
    made = ExperimentRepository(tmp_path)
    made.save("better", 0.7)
    saved = made.save("better", 0.8)
    assert saved_experiments(tmp_path) == [saved]
