"""A full disk: every stage, ``predict``, a checkpoint and a run's checkout end with one clear error, and keep
no part of a file."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.conftest import ROOT
from tests.dvc_files import init_dvc
from tests.faults.disks import on_full_disk
from tests.params import copy_code
from tests.project import GIT_IDENTITY
from tests.tuneline.training import tiny_task

FULL = r"cannot be written: No space left on device( \((?s:.*)\))?\."
"""The error of the library is in parentheses if it does not say the same."""
LEFT = "; code=$?; find . -name '.*.partial' -o -name '.*.former'; exit $code"
"""Prints what a command leaves half-written, after it."""
OUTS = {
    "base": "models/base",
    "download": "data/raw",
    "tokenize": "data/tokenized",
    "validate": "reports/checks",
    "baseline": "reports/baselines",
    "train": "models/classifier",
    "evaluate": "reports/predictions.parquet",
    "export": "models/candidates",
    "compare": "models/onnx",
}
"""The out that each stage writes first."""


LIBRARIES = {
    "pyarrow": (
        "import pyarrow as pa, pyarrow.parquet as pq; pq.write_table(pa.table({'a': list(range(90000))}),"
        " path)"
    ),
    "numpy": "import numpy as np; np.save(path.open('wb'), np.zeros(90000))",
    "safetensors": (
        "import numpy as np; from safetensors.numpy import save_file; save_file({'a': np.zeros(90000)}, path)"
    ),
    "tokenizers": (
        "from tokenizers import Tokenizer, models; "
        "Tokenizer(models.WordLevel({str(i): i for i in range(30000)}, unk_token='0')).save(str(path))"
    ),
    "onnx": (
        "import numpy as np, onnx; from onnx import helper, numpy_helper as n;"
        " onnx.save(helper.make_model(helper.make_graph([], 'g', [], [], [n.from_array(np.zeros(90000),"
        " 'w')])), path)"
    ),
}
"""How libraries write ``path``; each reports a full disk in its own way."""


@pytest.fixture(scope="session")
def pipeline(tmp_path_factory) -> Path:
    """A project in which the pipeline has run. Only copy it."""
    import stages.compare
    import stages.export
    from tests.small_pipeline import write_pipeline

    folder = tmp_path_factory.mktemp("pipeline")
    write_pipeline(folder, changes={"compare.int8.min_agreement": 0.8, "compare.int8.max_metric_drop": 0.2})
    shutil.copytree(ROOT / "conf/accelerate", folder / "conf/accelerate")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        stages.export.main()
        stages.compare.main()
    return folder


def run(command: list[str], folder: Path, **env: str) -> subprocess.CompletedProcess[str]:
    variables = {**os.environ, "PYTHONPATH": str(ROOT), "PYTHONDONTWRITEBYTECODE": "1", **env}
    return subprocess.run(command, cwd=folder, env=variables, capture_output=True, text=True, check=False)


def remove(path: Path) -> None:
    shutil.rmtree(path) if path.is_dir() else path.unlink(missing_ok=True)


@pytest.mark.parametrize(
    "library",
    [pytest.param(name, marks=[pytest.mark.slow] * (name in {"torch", "onnx"})) for name in LIBRARIES],
)
def test_full_disk_is_recognized_in_the_error_of_each_library(tmp_path, library):
    code = f"""
from pathlib import Path
from tuneline.core.runtime.errors import DiskError
from tuneline.core.runtime.files import replace_directory
try:
    with replace_directory(Path("out")) as folder:
        path = folder / "file"
        {LIBRARIES[library]}
except DiskError as error:
    print(error)
print(sorted(Path().iterdir()))
"""
    done = run(on_full_disk(tmp_path, 64, sys.executable, "-c", code), tmp_path)
    assert re.search(f"out {FULL}", done.stdout), done.stderr
    assert done.stdout.endswith("[]\n")


@pytest.mark.slow
@pytest.mark.parametrize("stage", OUTS)
@pytest.mark.promise("full-disk")
def test_stage_says_that_the_disk_is_full(pipeline, tmp_path, stage):
    project = tmp_path / "project"
    shutil.copytree(pipeline, project)
    remove(project / OUTS[stage])
    if stage == "evaluate":
        remove(project / "data/raw/source.json")  # that of the small pipeline names no split
    room = 0 if stage in {"base", "baseline", "evaluate"} else 16  # they write little
    module = "tuneline.training.launch stages.train" if stage == "train" else f"stages.{stage}"
    done = run(on_full_disk(project, room, "sh", "-c", f"{sys.executable} -m {module}{LEFT}"), project)
    assert done.returncode == 1, done.stdout + done.stderr
    *before, problem, hint = done.stderr.splitlines()
    assert re.match(rf"{stage}: \S+ {FULL}", problem), (
        problem
    )  # the first file of the stage that does not fit
    assert "Make room on its file system" in hint
    assert not [line for line in before if line.strip() and not re.search(r", \d+ s$", line)], (
        "but progress on a slow machine"
    )
    assert ".partial" not in done.stdout
    assert ".former" not in done.stdout


@pytest.mark.slow
@pytest.mark.promise("full-disk")
def test_full_disk_at_a_checkpoint_keeps_the_one_before_and_training_goes_on_from_it(tmp_path):
    tiny_task.write_data(tmp_path)
    copy_code(tmp_path)
    shutil.copytree(ROOT / "conf/accelerate", tmp_path / "conf/accelerate")
    large = {"intermediate_size": 8192}  # 2 MB of weights, 6 MB in a checkpoint
    tiny_task.write_params(tmp_path, large, keep="last", checkpoint_every_steps=4)
    train = f"{sys.executable} -m tuneline.training.launch stages.train 2>&1; echo exit $?"
    after = "find checkpoints -name '.*.partial'; ls checkpoints/*; echo; mount -o remount,size=100m $PWD"
    done = run(
        on_full_disk(tmp_path, 15_000, "sh", "-c", f"{train}; {after}; {train}"),
        tmp_path,
        ACCELERATE_USE_CPU="true",
    )
    first, second, rest = done.stdout.split("exit ")[0], *done.stdout.split("exit ")[1:]
    *_, problem, hint = first.splitlines()
    partial = re.match(r"train: checkpoints/\w+/step-(\d+) cannot be written", problem)
    assert partial, problem
    complete = int(partial[1]) - 4
    assert re.search(FULL, problem)
    assert "run the same command again" in hint
    listed = second.partition("\n\n")[0].split()
    assert listed[-1] == f"step-{complete:08}"
    assert ".partial" not in second
    assert f"resumes from step {complete} of 16" in second
    assert rest.split()[0] == "0", done.stdout


CHECK_OUT = """
from pathlib import Path
from tuneline.operations.runs.checkout import isolated
from tuneline.operations.runs.repository import Repository
try:
    with isolated(Repository(Path.cwd()), "run", "main"):
        print("checked out")
except Exception as error:
    print(f"{type(error).__name__}: {error}")
print(sorted(path.name for path in Path(".dvc/tmp/flows").iterdir()))
"""


@pytest.mark.parametrize("room", [150])
def test_checkout_of_a_run_says_that_the_disk_is_full_and_leaves_nothing(tmp_path, homes, room):
    for name in ("first", "second"):
        (tmp_path / name).write_bytes(os.urandom(200_000))
    run("git init --quiet --initial-branch=main".split(), tmp_path)
    init_dvc(tmp_path)
    for command in ("git add --all", "git commit --quiet --message=Start"):
        run(command.split(), tmp_path, **GIT_IDENTITY)
    done = run(on_full_disk(tmp_path, room, sys.executable, "-c", CHECK_OUT), tmp_path)
    assert f"DiskError: {tmp_path}/.dvc/tmp/flows" in done.stdout, done.stdout + done.stderr
    assert re.search(FULL, done.stdout)
    assert done.stdout.splitlines()[-1] in {"[]", "['checkouts.lock', 'run.lock']"}
