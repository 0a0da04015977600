import math
import re
import shutil

import pytest
from hydra import compose, initialize_config_dir
from omegaconf import OmegaConf
from typer.testing import CliRunner

from tests.hub import LoopbackHub
from tests.tuneline.cli.init.test_init import Terminal
from tests.tuneline.cli.init.tiny_checkpoint import write_checkpoint
from tuneline.cli import app
from tuneline.cli.init.recipe import MULTILINGUAL, SMALL, suggested
from tuneline.core.yaml_files import read_yaml
from tuneline.params.loading import load_params
from tuneline.params.params_file import changed

runner = CliRunner(env={"COLUMNS": "200"})


def init(*words, **options):
    return runner.invoke(app, ["init", *map(str, words)], **options)


def test_checkpoint_gives_parameters_that_fine_tune_it(project, tickets, checkpoint):
    done = init(tickets, "--checkpoint", checkpoint, "--force")
    assert done.exit_code == 0, done.output
    params = load_params()
    assert (params.model.checkpoint, params.model.revision, params.model.config) == (checkpoint, None, {})
    assert (params.tokenize.tokenizer, params.tokenize.max_length) == (None, 64)
    assert (params.train.learning_rate, params.train.epochs, params.train.keep) == (1e-4, 16, "last")
    assert "truncates 0.0% of rows (the model takes no more)" in done.output
    assert params.model.head == "auto"


def test_plan_says_what_the_test_rows_can_tell_apart(project, tmp_path):
    """Words that no two rows share: each row counts."""
    rows = "".join(f"w{row} a{row} b{row} c{row},{'spam' if row % 3 else 'ham'}\n" for row in range(200))
    (tmp_path / "unlike.csv").write_text(f"text,label\n{rows}")
    printed = init(tmp_path / "unlike.csv", "--force").output
    (number, half) = re.search(
        r"With (\d+) rows, test measures an accuracy of 0.8 to within (\S+),", printed
    ).groups()
    assert float(half) == pytest.approx(1.96 * math.sqrt(0.16 / int(number)), abs=0.001)


def test_plan_counts_distinct_texts(project, tmp_path):
    rows = "".join(f"w{row} a{row} b{row} c{row},{'spam' if row % 3 else 'ham'}\n" * 6 for row in range(100))
    (tmp_path / "copies.csv").write_text(f"text,label\n{rows}")
    printed = init(tmp_path / "copies.csv", "--force").output
    found = re.search(r"With (\d+) rows, (\d+) distinct texts, .* to within (\S+),", printed)
    number, texts, half = found.groups()
    assert int(number) == 6 * int(texts)
    assert float(half) == pytest.approx(1.96 * math.sqrt(0.16 / int(texts)), abs=0.001)


def test_plan_counts_groups(project, tmp_path):
    lines = [f"w{row} a{row} b{row} c{row},{'spam' if row % 3 else 'ham'},{row // 5}\n" for row in range(400)]
    (tmp_path / "groups.csv").write_text(f"text,label,customer\n{''.join(lines)}")
    printed = init(tmp_path / "groups.csv", "--by", "customer", "--force").output
    number, groups = re.search(r"With (\d+) rows, (\d+) groups,", printed).groups()
    assert int(number) == 5 * int(groups)


def test_learning_rate_is_a_number_in_every_version_of_yaml(project, tickets, checkpoint):
    init(tickets, "--checkpoint", checkpoint, "--force")
    assert "learning_rate: 0.0001" in (project / "params.yaml").read_text()
    assert "learning_rate: 5.0e-5\n" in changed(project / "params.yaml", {"train.learning_rate": 5e-5})


def test_parameters_can_be_kept_as_a_task_that_experiments_start_from(project, root, tickets, checkpoint):
    """As docs/parameters.md says."""
    init(tickets, "--checkpoint", checkpoint, "--force")
    shutil.copytree(root / "conf", project / "conf", dirs_exist_ok=True)
    (project / "conf/task/mine.yaml").write_text(
        "# @package _global_\n" + (project / "params.yaml").read_text()
    )
    with initialize_config_dir(str(project / "conf"), version_base=None):
        values = OmegaConf.to_container(
            compose(config_name="config", overrides=["task=mine", "train.learning_rate=2e-5"])
        )
    assert values == read_yaml(project / "params.yaml") | {"train": values["train"]}
    assert values["train"] == read_yaml(project / "params.yaml")["train"] | {"learning_rate": 2e-5}


def test_second_run_proposes_the_same_and_asks_nothing(project, tickets, checkpoint):
    assert init(tickets, "--checkpoint", checkpoint, "--force").exit_code == 0
    before = (project / "params.yaml").read_bytes()
    for options in ([], ["--checkpoint", checkpoint]):
        done = init(tickets, *options)
        assert done.exit_code == 0, done.output
        assert "nothing, all is there already" in done.output
        assert (project / "params.yaml").read_bytes() == before


def test_parameters_of_another_task_do_not_remain(project, tickets, checkpoint):
    """Those of a regression on pairs of a hub data set, by a large checkpoint with an adapter and another
    tokenizer."""
    former = {
        "data.source": "hub",
        "data.path": "nyu-mll/glue",
        "data.name": "stsb",
        "data.revision": "main",
        "data.splits": {"train": "train[:90%]", "validation": "train[90%:]", "test": "validation"},
        "data.text_columns": ["one", "other"],
        "data.label_column": "score",
        "data.task": "regression",
        "tokenize.tokenizer": "google-bert/bert-base-uncased",
        "tokenize.max_length": 512,
        "model.checkpoint": "FacebookAI/roberta-large",
        "model.revision": "main",
        "model.config": {"hidden_dropout_prob": 0.0},
        "train.epochs": None,
        "train.max_steps": 1000,
        "train.global_batch_size": 8,
        "train.micro_batch_size": 4,
        "train.warmup_ratio": 0.0,
        "train.schedule": "cosine",
        "train.lora": {"rank": 8, "alpha": 16, "dropout": 0.0, "target_modules": None},
        "train.keep": "last",
        "train.metric": "pearson",
        "evaluate.split": "validation",
        "evaluate.metrics": ["spearmanr"],
        "evaluate.behaviour": "stsb",
    }
    clean = (project / "params.yaml").read_text()
    init(tickets, "--checkpoint", checkpoint, "--force")
    expected = load_params()
    (project / "params.yaml").write_text(clean)
    (project / "params.yaml").write_text(changed(project / "params.yaml", former))
    done = init(tickets, "--checkpoint", checkpoint, "--force")
    assert done.exit_code == 0, done.output
    assert load_params() == expected


@pytest.mark.parametrize("task", ["classification", "regression"])
def test_class_weights_and_label_smoothing_remain_where_the_task_has_them(project, tickets, checkpoint, task):
    path = project / "params.yaml"
    path.write_text(changed(path, {"train.class_weights": "balanced", "train.label_smoothing": 0.1}))
    init(tickets, "--label", "id", "--task", task, "--checkpoint", checkpoint, "--force")
    train = load_params().train
    assert (train.class_weights, train.label_smoothing) == (
        ("balanced", 0.1) if task == "classification" else (None, 0.0)
    )


def test_without_a_checkpoint_training_from_scratch_is_explained_and_set_up(project, tickets, checkpoint):
    path = project / "params.yaml"
    path.write_text(
        changed(
            path,
            {
                "model.checkpoint": checkpoint,
                "model.config": {},
                "train.learning_rate": 2e-5,
                "tokenize.max_length": 512,
            },
        )
    )
    done = init(tickets, "--force")
    assert done.exit_code == 0, done.output
    assert "a small new model is trained from scratch" in done.output
    assert f"--checkpoint {SMALL}" in done.output
    params = load_params()
    assert (params.model.checkpoint, params.model.config["model_type"], params.train.learning_rate) == (
        None,
        "bert",
        7e-4,
    )
    assert params.tokenize.max_length <= params.model.config["max_position_embeddings"]


def test_question_on_a_terminal_offers_checkpoints(project, tickets, checkpoint, monkeypatch):
    monkeypatch.setattr("tuneline.cli.init.sys", Terminal)
    done = init(tickets, input=f"9\n5\n{checkpoint}\ny\n")
    assert done.exit_code == 0, done.output
    assert f"1  {SMALL}" in done.output
    assert load_params().model.checkpoint == checkpoint


def test_answer_none_on_a_terminal_trains_from_scratch(project, tickets, monkeypatch):
    monkeypatch.setattr("tuneline.cli.init.sys", Terminal)
    assert init(tickets, input="6\ny\n").exit_code == 0
    assert load_params().model.checkpoint is None


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Where is my parcel?", SMALL),
        ("Où est mon colis égaré ?", MULTILINGUAL),
        ("包裹在哪里", MULTILINGUAL),
    ],
)
def test_suggestion_reads_the_language_of_the_texts(text, expected):
    assert suggested([("1", text)], ["id", "text"], ["text"]) == expected


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--revision", "main"], "--revision is that of a checkpoint, and there is no --checkpoint"),
        (["--checkpoint", "models/source/none"], "--checkpoint: models/source/none is not a folder"),
        (["--checkpoint", "owner/name"], "the hub cannot be asked for owner/name"),
    ],
)
def test_invalid_checkpoint_is_refused_before_anything_is_written(project, tickets, options, message):
    before = (project / "params.yaml").read_bytes()
    done = init(tickets, "--force", *options)
    assert done.exit_code == 1
    assert message in done.output
    assert (project / "params.yaml").read_bytes() == before
    assert not (project / "data").exists()


@pytest.mark.slow
def test_checkpoint_of_the_hub_is_pinned_to_its_commit(project, tickets, tmp_path, run_tuneline):
    with LoopbackHub(tmp_path / "hub") as hub:
        commit = hub.add(
            "models", "owner/tiny", write_checkpoint(tmp_path / "files"), branches=("main", "v2")
        )
        done = run_tuneline(
            "init",
            tickets,
            "--checkpoint",
            "owner/tiny",
            "--revision",
            "v2",
            "--force",
            env=hub.env(tmp_path / "home"),
        )
        unknown = run_tuneline(
            "init",
            tickets,
            "--checkpoint",
            "owner/tiny",
            "--revision",
            "v3",
            "--force",
            env=hub.env(tmp_path / "home"),
        )
    assert done.returncode == 0, done.stdout + done.stderr
    params = load_params()
    assert (params.model.checkpoint, params.model.revision) == ("owner/tiny", commit)
    assert not list((tmp_path / "home").rglob("model.safetensors")), "the weights are not downloaded"
    assert "--checkpoint: owner/tiny has no branch, tag or commit 'v3'" in unknown.stderr
