import re

import pytest
from typer.testing import CliRunner

from tests.hub import LoopbackHub
from tests.tuneline.operations.adoption.tiny_checkpoint import write_checkpoint
from tuneline.cli import app
from tuneline.core.params.loading import load_params
from tuneline.core.params.params_file import changed
from tuneline.operations.adoption.checkpoints import MULTILINGUAL, SMALL, suggested_for

runner = CliRunner(env={"COLUMNS": "200"})


def init(*words, **options):
    return runner.invoke(app, ["init", *map(str, words)], **options)


def test_checkpoint_gives_parameters_that_fine_tune_it(project, tickets, checkpoint):
    done = init(tickets, "--checkpoint", checkpoint, "--force")
    assert done.exit_code == 0, done.output
    params = load_params()
    assert (params.model.checkpoint, params.model.revision, params.model.config) == (checkpoint, None, {})
    assert params.tokenize.max_length == 64
    assert (params.train.learning_rate, params.train.epochs, params.train.keep) == (2e-4, 8, "last")
    assert "0.0% of rows are longer (the model takes no more)" in done.output
    assert params.model.head == "auto"


@pytest.mark.parametrize(
    ("texts", "notes"),
    [
        (["#NAME?", "#BEZUG!", "#N/A", "#sale!"], [("errors of a spreadsheet", "3")]),
        (["a" * 255, "b" * 255], [("exactly 255 characters", "2")]),
        (["c" * 32_767], [("exactly 32,767 characters", "1")]),
        (["a" * 255, "b" * 255, "c" * 300, "#sale!"], []),
    ],
)
def test_texts_that_a_spreadsheet_has_damaged_are_counted(project, tickets, texts, notes):
    with tickets.open("a") as file:
        file.writelines(f"{number + 100},{text},billing\n" for number, text in enumerate(texts))
    done = init(tickets, "--yes")
    assert done.exit_code == 0, done.output
    assert (
        re.findall(r"! 'text': .*(errors of a spreadsheet|exactly [\d,]+ characters).*: (\d+)", done.output)
        == notes
    )


def test_parameters_of_another_task_do_not_remain(project, tickets, checkpoint):
    """Those of a regression on pairs of a hub data set, by a large checkpoint with an adapter."""
    former = {
        "data.source": "hub",
        "data.path": "nyu-mll/glue",
        "data.name": "stsb",
        "data.revision": "main",
        "data.splits": {"train": "part1", "validation": "part2", "test": "validation"},
        "data.text_columns": ["one", "other"],
        "data.label_column": "score",
        "data.task": "regression",
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
    }
    clean = (project / "params.yaml").read_text()
    init(tickets, "--checkpoint", checkpoint, "--force")
    expected = load_params()
    (project / "params.yaml").write_text(clean)
    (project / "params.yaml").write_text(changed(project / "params.yaml", former))
    done = init(tickets, "--checkpoint", checkpoint, "--force")
    assert done.exit_code == 0, done.output
    assert load_params() == expected


def test_without_a_checkpoint_the_model_of_the_parameters_keeps_its_recipe(project):
    recipe = {
        "model.checkpoint": "owner/former",
        "model.config": {},
        "model.head": "auto",
        "train.epochs": None,
        "train.max_steps": 1000,
        "train.keep": "last",
    }
    of_one_text = {"data.text_columns": ["body"], "train.contrastive": 0.5}
    path = project / "params.yaml"
    path.write_text(changed(path, recipe | of_one_text))
    pairs = project / "pairs.csv"
    pairs.write_text("text_a,text_b,label\n" + "one text,another text,a\nsome text,a text,b\n" * 40)
    done = init(pairs, "--task", "classification", "--yes")
    assert done.exit_code == 0, done.output
    assert "the model of params.yaml, owner/former, with the recipe" in done.output
    assert "train.contrastive: 0.5 -> 0.0" in done.output
    params = load_params()
    assert (params.model.checkpoint, params.model.head) == ("owner/former", "auto")
    assert (params.train.max_steps, params.train.keep, params.train.contrastive) == (1000, "last", 0.0)


def test_small_new_model_is_called_so(project, tickets):
    done = init(tickets, "--yes")
    assert "No --checkpoint: a small new model" in done.output
    assert f"tuneline init FILE --checkpoint {SMALL}" in done.output


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Where is my parcel?", SMALL),
        ("Où est mon colis égaré ?", MULTILINGUAL),
        ("包裹在哪里", MULTILINGUAL),
    ],
)
def test_suggestion_reads_the_language_of_the_texts(text, expected):
    assert suggested_for([None, text]) == expected


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


UNCLEAR = "price,a,some words\n" + "".join(
    f"{number}.5,{'ab'[number % 2]},day {number} is here\n" for number in range(60)
)
"""The numbers say that the first line is a header, and the classes that it is a row."""


def test_first_line_that_can_be_read_in_two_ways_stops_with_the_option_for_each(project):
    (project / "a.csv").write_text(UNCLEAR)
    done = init(project / "a.csv", "--yes")
    assert done.exit_code == 1
    assert "'price', 'a', 'some words'" in done.output
    assert "add --header" in done.output
    assert "add --no-header" in done.output
