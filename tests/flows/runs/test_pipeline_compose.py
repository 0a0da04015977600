"""Parameters of a run: what ``dvc exp run -S`` writes, and nothing from outside of the parameters of the
ref."""

import os
import sys

import pytest
from ruamel.yaml import YAML

from flows.runs.pipeline import OverridesError, Pipeline
from flows.runs.processes import Programs
from tests.flows.conftest import sh

SECRET = "t0p-s3cret"  # noqa: S105 - nobody's


@pytest.fixture
def pipeline(toy, monkeypatch):
    """The small pipeline, in the process of a flow that has secrets."""
    for name in ("GIT_TOKEN", "HF_TOKEN", "PREFECT_API_AUTH_STRING"):
        monkeypatch.setenv(name, SECRET)
    return Pipeline(Programs(toy.root, "test-line"), lambda _line: None)


def params(toy) -> str:
    return (toy.root / "params.yaml").read_text()


def plugin(toy, code: str) -> None:
    """Add code to the ref that Hydra imports when it composes."""
    (toy.root / "hydra_plugins").mkdir()
    (toy.root / "hydra_plugins" / "own.py").write_text(code)


@pytest.mark.parametrize("overrides", [("task=weak", "train.steps=7", "seed=1")])
def test_compose_writes_the_params_of_dvc_exp_run(pipeline, toy, overrides):
    flags = [flag for override in overrides for flag in ("--set-param", override)]
    sh("dvc", "exp", "run", "--queue", "--name=theirs", *flags, cwd=toy.root)
    stash = sh("git", "rev-parse", "refs/exps/celery/stash", cwd=toy.root).strip()
    theirs = sh("git", "show", f"{stash}:params.yaml", cwd=toy.root)
    pipeline.compose(overrides)
    assert params(toy) == theirs


@pytest.mark.parametrize("override", ["train.no_such_key=1", "task=no_such_task", "train.steps==="])
def test_compose_refuses_invalid_overrides(pipeline, override):
    with pytest.raises(OverridesError, match=f"Parameters {override}:\n"):
        pipeline.compose([override])


@pytest.mark.parametrize(
    "override",
    ["data.counter=${oc.env:GIT_TOKEN}", "+x=\\${seed}"],
)
def test_interpolation_in_an_override_is_refused(pipeline, toy, override):
    before = params(toy)
    with pytest.raises(
        OverridesError,
        match="interpolations",
    ):
        pipeline.compose([override])
    assert params(toy) == before


def test_composition_sees_no_secret(pipeline, toy):
    """Also not where the ref itself asks for one: its conf/ and its plugins are code that somebody pushed."""
    (toy.root / "conf" / "task" / "spy.yaml").write_text(
        "# @package _global_\nx: ${oc.env:GIT_TOKEN,none}\ny: ${oc.env:HF_TOKEN,none}\n"
    )
    plugin(toy, "import os, pathlib\npathlib.Path('seen').write_text(str(dict(os.environ)))\n")
    pipeline.compose(["task=spy"])
    assert YAML(typ="safe", pure=True).load(params(toy)) == {"x": "none", "y": "none"}
    assert SECRET not in (toy.root / "seen").read_text()


def test_plugins_of_a_ref_are_not_imported_into_the_flow(pipeline, toy):
    plugin(toy, "import os, pathlib\npathlib.Path('imported-by').write_text(str(os.getpid()))\n")
    pipeline.compose(["seed=1"])
    assert (toy.root / "imported-by").read_text() != str(os.getpid())
    assert not {name for name in sys.modules if name.startswith("hydra_plugins.own")}


@pytest.mark.parametrize(
    "override",
    [
        "task=../../../outside",
        "hydra.searchpath=[file://{folder}]",
        "+hydra/launcher=basic",
        "+task@hydra=weak",
    ],
)
def test_override_cannot_read_other_files(pipeline, toy, tmp_path, override):
    (tmp_path / "outside.yaml").write_text("token: t0p-s3cret\n")
    before = params(toy)
    with pytest.raises(OverridesError, match=r"conf/task/|settings"):
        pipeline.compose([override.format(folder=tmp_path)])
    assert params(toy) == before


@pytest.mark.parametrize(
    "value",
    ["$(touch hacked)", "a; touch hacked", "--option", "../../outside"],
)
def test_shell_in_a_parameter_of_a_command_is_refused(pipeline, toy, value):
    (toy.root / "dvc.yaml").write_text(
        "stages:\n  train:\n    cmd: echo ${train.launch} > out\n    outs: [out]\n"
    )
    with pytest.raises(
        OverridesError,
        match=r"\$\{train\.launch\}",
    ):
        pipeline.compose([f"+train.launch='{value}'"])
    assert not (toy.root / "hacked").exists()
