"""Completeness of dvc.yaml: DVC reruns a stage only for the dependencies listed there, so a missing one
leaves outdated outputs."""

import ast
import re
from pathlib import Path

import pytest
from ruamel.yaml import YAML

from tests.conftest import ROOT
from tuneline.core.params.loading import known_keys
from tuneline.core.stage.code import CHANGES_NO_OUT, changes_no_out, imported_files

STAGES = YAML(typ="safe", pure=True).load(ROOT / "dvc.yaml")["stages"]
CODE = ("stages", "tuneline")
"""Packages that contain the code of the pipeline."""


def names(entries: list) -> set[str]:
    """Return the names in a list of dvc.yaml, whose entries are a name or a name with options."""
    return {next(iter(entry)) if isinstance(entry, dict) else entry for entry in entries}


def imported(stage: str) -> set[Path]:
    """Return every file of the pipeline's code that ``python -m stages.NAME`` may load."""
    return imported_files(f"stages.{stage}", ROOT, CODE)


def determines_outs(path: Path) -> bool:
    """Return whether a file can change an out: it is more than a package's docstring."""
    if len(ast.parse((ROOT / path).read_text(encoding="utf-8")).body) == 1:
        return False
    return not changes_no_out(path)


def covered(path: Path, deps: set[str]) -> bool:
    return any(path == Path(dep) or Path(dep) in path.parents for dep in deps)


def listed_params(*stages: str) -> set[str]:
    """Return the parameters and sections that stages list."""
    return {key for stage in stages for key in STAGES[stage].get("params", [])}


@pytest.mark.parametrize("stage", STAGES)
def test_every_imported_module_is_a_dependency(stage):
    deps = names(STAGES[stage]["deps"])
    missing = {path for path in imported(stage) if determines_outs(path) and not covered(path, deps)}
    assert not missing, f"add to deps of {stage} in dvc.yaml: {sorted(map(str, missing))}"


@pytest.mark.parametrize("stage", STAGES)
def test_every_code_dependency_is_imported(stage):
    """A dependency that is not imported would rerun the stage without need."""
    used = imported(stage)
    listed = {Path(dep) for dep in names(STAGES[stage]["deps"]) if Path(dep).parts[0] in CODE}
    unused = {dep for dep in listed if not any(path == dep or dep in path.parents for path in used)}
    assert not unused


@pytest.mark.parametrize("stage", STAGES)
def test_code_dependencies_are_a_page_and_folders_without_parameters_and_operations(stage):
    """A stage names ideas, not files; neither an operation nor a description of a parameter starts a
    training."""
    listed = {Path(dep) for dep in names(STAGES[stage]["deps"]) if Path(dep).parts[0] in CODE}
    rooms = listed - {Path(f"stages/{stage}.py")}
    assert len(listed) == len(rooms) + 1
    assert all((ROOT / room).is_dir() for room in rooms)
    if stage == "report":  # the page tells facts of git, and no later stage depends on it
        return
    assert not {Path(f"tuneline/{name}") for name in ("cli", "core", "operations", "rows", "serve")} & rooms
    assert not CHANGES_NO_OUT.keys() & rooms


@pytest.mark.parametrize("stage", STAGES)
def test_stages_do_not_import_each_other(stage):
    others = {Path(f"stages/{other}.py") for other in STAGES if other != stage}
    assert not imported(stage) & others


def test_core_imports_neither_stages_nor_command_line():
    """Only ``tuneline.cli`` itself may import ``tuneline.cli``."""
    for path in (ROOT / "tuneline").rglob("*.py"):
        used = imported_files(".".join(path.relative_to(ROOT).with_suffix("").parts), ROOT, CODE)
        assert not {file for file in used if file.parts[0] == "stages"}, path
        if "cli" not in path.relative_to(ROOT).parts:
            assert not {file for file in used if Path("tuneline/cli") in file.parents}, path


def test_flows_import_no_stage_no_command_line_and_no_torch():
    for path in (ROOT / "flows").rglob("*.py"):
        module = ".".join(path.relative_to(ROOT).with_suffix("").parts)
        imported = imported_files(module, ROOT, ("flows", *CODE))
        assert not {
            file for file in imported if file.parts[0] == "stages" or Path("tuneline/cli") in file.parents
        }, path
        heavy = re.compile(r"^\s*(import|from) (torch|transformers|datasets)\b", re.MULTILINE)
        asked = {
            file for file in imported if Path("tuneline/model/tasks") not in file.parents
        }  # a task computes losses only for a training
        assert not {file for file in asked if heavy.search((ROOT / file).read_text(encoding="utf-8"))}, path


def test_every_parameter_but_those_of_run_is_listed_by_a_stage():
    """``dvc repro`` does not react to a change of a parameter that no stage lists; those of ``run`` change no
    out."""
    listed = listed_params(*STAGES)
    values = [key for key in known_keys() if not any(other.startswith(f"{key}.") for other in known_keys())]
    unlisted = {
        key for key in values if not any(key == other or key.startswith(f"{other}.") for other in listed)
    }
    assert {key.partition(".")[0] for key in unlisted} == {"run"}
