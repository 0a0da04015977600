"""dvc.yaml says the truth: DVC reruns a stage only for what stands there, so a module left out means a stale model."""

from pathlib import Path

import pytest
from ruamel.yaml import YAML

from tests.conftest import ROOT
from tests.imports import imported_files
from tuneline.params.loading import known_keys

PIPELINE = YAML(typ="safe", pure=True).load(ROOT / "dvc.yaml")
STAGES = PIPELINE["stages"]
# Keys that change how a stage works or looks but not one byte of what it makes: a stage need not run again for them.
BOOKKEEPING: set[str] = {
    "train.checkpoint_every_steps",
    "train.checkpoint_every_minutes",
    "train.checkpoint_every_epochs",
    "train.keep_checkpoints",
    "train.trackers",
}
LINE = ("stages", "tuneline")
"""The packages whose files are the line's code."""
MAKERS = ("download", "tokenize", "train", "export")
"""The stages that make a model. Export hashes their code into it, so it depends on files that it does not import."""


def names(entries: list) -> set[str]:
    """The keys of a list in dvc.yaml, whose entries are a name or a name with options."""
    return {next(iter(entry)) if isinstance(entry, dict) else entry for entry in entries}


def imported(stage: str) -> set[Path]:
    """Every file of the line's code that ``python -m stages.NAME`` may load."""
    return imported_files(f"stages.{stage}.__main__", ROOT, LINE)


def covered(path: Path, deps: set[str]) -> bool:
    return any(path == Path(dep) or Path(dep) in path.parents for dep in deps)


@pytest.mark.parametrize("stage", STAGES)
def test_every_imported_module_is_a_dependency(stage):
    deps = names(STAGES[stage]["deps"])
    missing = {path for path in imported(stage) if not covered(path, deps)}
    assert not missing, f"add to deps of {stage} in dvc.yaml: {sorted(map(str, missing))}"


@pytest.mark.parametrize("stage", STAGES)
def test_no_dependency_on_code_is_idle(stage):
    """A module listed but not imported would rerun the stage for nothing."""
    makers = MAKERS if stage == "export" else (stage,)
    used = {path for maker in makers for path in imported(maker)}
    listed = {Path(dep) for dep in names(STAGES[stage]["deps"]) if Path(dep).parts[0] in LINE}
    idle = {dep for dep in listed if not any(path == dep or dep in path.parents for path in used)}
    assert not idle


@pytest.mark.parametrize("stage", STAGES)
def test_a_stage_imports_no_other_stage(stage):
    others = {Path("stages", other) for other in STAGES if other != stage}
    assert not {path for path in imported(stage) if others & {*path.parents}}


def test_what_the_stages_share_knows_neither_them_nor_the_command_line():
    """``tuneline`` is below the stages, ``tuneline.cli`` beside them: each can be read without the others."""
    for path in (ROOT / "tuneline").rglob("*.py"):
        used = imported_files(".".join(path.relative_to(ROOT).with_suffix("").parts), ROOT, LINE)
        assert not {found for found in used if found.parts[0] == "stages"}, path
        if "cli" not in path.relative_to(ROOT).parts:
            assert not {found for found in used if Path("tuneline/cli") in found.parents}, path


@pytest.mark.parametrize("stage", STAGES)
def test_no_stage_needs_the_command_line(stage):
    assert not {path for path in imported(stage) if Path("tuneline/cli") in path.parents}


def test_flows_import_neither_stages_nor_the_command_line():
    """Flows run stages through DVC, in the version of the commit that is run."""
    for path in (ROOT / "flows").rglob("*.py"):
        used = imported_files(".".join(path.relative_to(ROOT).with_suffix("").parts), ROOT, ("flows", *LINE))
        assert not {found for found in used if found.parts[0] == "stages" or Path("tuneline/cli") in found.parents}, path


def test_every_parameter_reaches_a_stage():
    """A key that no stage lists would change nothing: ``dvc repro`` would not run after an edit of it."""
    listed = {key for stage in STAGES.values() for key in stage["params"]}
    leaves = {key for key in known_keys() if not any(other.startswith(f"{key}.") for other in known_keys())}
    reached = {leaf for leaf in leaves for key in listed if leaf == key or leaf.startswith(f"{key}.")}
    templated = {"train.launch"}  # part of the stage's command
    assert leaves - reached - templated == BOOKKEEPING


def test_every_listed_parameter_exists():
    listed = {key for stage in STAGES.values() for key in stage["params"]}
    assert listed <= set(known_keys())


def test_parameters_are_listed_key_by_key():
    """Naming a whole section of a stage would rerun it for keys that do not touch it."""
    sections = {key for key in known_keys() if "." not in key and key != "seed"}
    for stage in STAGES.values():
        assert not sections & set(stage["params"])


def test_metrics_are_kept_in_git_and_plots_in_the_cache():
    for stage in STAGES.values():
        assert all(options == {"cache": False} for metric in stage.get("metrics", []) for options in metric.values())
    assert not [out for stage in STAGES.values() for out in names(stage.get("outs", [])) if out.startswith("metrics")]


def test_artifacts_are_outs():
    outs = {out for stage in STAGES.values() for out in names(stage.get("outs", []))}
    assert {artifact["path"] for artifact in PIPELINE["artifacts"].values()} <= outs
