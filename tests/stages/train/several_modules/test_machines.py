"""A training on two machines: two launches with a rank of their own, on the loopback interface or in network
namespaces."""

import contextlib
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest
from torch.distributed import TCPStore

from stages.train.checkpoints import check_unchanged, common_identity
from stages.train.devices import create_accelerator
from tests.conftest import ROOT
from tests.stages.train import launcher, tiny_task
from tests.stages.train.conftest import fill
from tests.stages.train.launched import LONG
from tuneline.runtime.errors import StageError

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]

ROWS = 57
SETTINGS = {
    "launch": "multi-node",
    "mixed_precision": "no",
    "micro_batch_size": 2,
    "checkpoint_every_steps": 3,
}
MINUTE = 60

SRUN = """
# Stands in for SLURM's srun: it starts a command once for each machine, with the variables of a step.
import os, subprocess, sys

words = sys.argv[1:]
options = [words.pop(0) for _ in range(len(words)) if words[0].startswith("--")]
assert options == ["--ntasks-per-node=1", "--kill-on-bad-exit=1"], options
step = {
    **os.environ,
    "SLURM_STEP_NUM_NODES": os.environ["SLURM_NNODES"],
    "SLURM_STEP_NODELIST": os.environ["SLURM_JOB_NODELIST"],
}
machines = [
    subprocess.Popen(words, env={**step, "SLURM_NODEID": str(rank)})
    for rank in range(int(os.environ["SLURM_NNODES"]))
]
codes = []
for _ in machines:
    codes.append(os.waitstatus_to_exitcode(os.wait()[1]))
    for machine in machines * (codes[-1] != 0):  # --kill-on-bad-exit
        machine.terminate()
sys.exit(max(codes))
"""
SCONTROL = """
# Stands in for SLURM's scontrol: two names of this machine.
import sys

assert sys.argv[1:] == ["show", "hostnames", "node[1-2]"], sys.argv
print("127.0.0.1\\nlocalhost")
"""
DVC_YAML = """
stages:
  train:
    cmd: python -m stages.train.launch
    deps: [data/tokenized, models/base]
    params: [seed, model.config, train]
    outs: [models/classifier, plots/training, reports/provenance/train.json]
    metrics: [{metrics/train.json: {cache: false}}]
"""


def prepared(folder: Path, data: Path, **train) -> Path:
    """Return a project with the launch configuration of the product."""
    tiny_task.write_data(fill(folder, data), rows=ROWS)
    shutil.copy(ROOT / "conf/accelerate/multi-node.yaml", folder / "conf/accelerate")
    tiny_task.write_params(folder, tiny_task.WITHOUT_DROPOUT, **{**SETTINGS, **train})
    return folder


class Machines:
    """Two launches, the first of which is that of the main machine.

    Args:
        address: Address of the main machine.
        wrappers: Command that runs another one on a machine, for each machine.
        interfaces: Network interface of each machine.
    """

    def __init__(self, address: str = "127.0.0.1", wrappers=((), ()), interfaces=("lo", "lo")) -> None:
        self.address, self.wrappers, self.interfaces = address, wrappers, interfaces
        self.started: list[subprocess.Popen[str]] = []
        self.port = 0

    def start(self, rank: int, project: Path) -> subprocess.Popen[str]:
        self.port = launcher.free_port() if rank == 0 else self.port
        flags = [
            "--machine_rank",
            str(rank),
            "--main_process_ip",
            self.address,
            "--main_process_port",
            str(self.port),
        ]
        process = subprocess.Popen(
            [*self.wrappers[rank], sys.executable, "-m", "stages.train.launch", *flags],
            cwd=project,
            env={**environment(), "GLOO_SOCKET_IFNAME": self.interfaces[rank]},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )
        self.started.append(process)
        return process

    def start_both(self, project: Path, other: Path | None = None) -> list[subprocess.Popen[str]]:
        return [self.start(0, project), self.start(1, other or project)]

    def kill(self) -> None:
        for process in self.started:
            kill_all(process)


def environment() -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": str(ROOT), "ACCELERATE_USE_CPU": "true", "OMP_NUM_THREADS": "1"}


def kill_all(process: subprocess.Popen[str]) -> None:
    """Kill a launch with all its processes, as a machine without power does."""
    with contextlib.suppress(psutil.NoSuchProcess):
        family = [psutil.Process(process.pid), *psutil.Process(process.pid).children(recursive=True)]
        for member in family:
            with contextlib.suppress(psutil.NoSuchProcess):
                member.suspend()
        for member in family:
            with contextlib.suppress(psutil.NoSuchProcess):
                member.kill()


def ended(process: subprocess.Popen[str]) -> tuple[int, str]:
    printed = process.communicate(timeout=launcher.TIMEOUT)[0]
    return process.returncode, printed


def last_lines(process: subprocess.Popen[str], since: float) -> tuple[int, str]:
    """Return exit code and output of a launch that must end within a minute after another machine was
    lost."""
    code, printed = ended(process)
    print(f"ended after {time.monotonic() - since:.1f} s with {code}: {printed[-400:]}")
    assert time.monotonic() - since < MINUTE
    assert "Traceback" not in printed, printed
    return code, printed


def listening(port: int) -> bool:
    with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=1):
        return True
    return False


@pytest.fixture
def machines() -> Iterator[Machines]:
    """Two machines on the loopback interface."""
    two = Machines()
    yield two
    two.kill()


@pytest.fixture
def namespaces() -> Iterator[Machines]:
    """Two machines with networks of their own, joined by a pair of virtual interfaces."""
    ip = shutil.which("ip")
    names = [f"tltest-{os.getpid()}-{rank}" for rank in (0, 1)]
    if (
        ip is None
        or subprocess.run([ip, "netns", "add", names[0]], capture_output=True, check=False).returncode
    ):
        pytest.skip("needs ip and the right to add network namespaces")
    two = Machines("10.77.0.1", [(ip, "netns", "exec", name) for name in names], ("tl0", "tl1"))
    try:
        subprocess.run([ip, "netns", "add", names[1]], check=True)
        ends = ["tl0", "netns", names[0], "type", "veth", "peer", "name", "tl1", "netns", names[1]]
        subprocess.run([ip, "link", "add", *ends], check=True)
        for rank, name in enumerate(names):
            inside = [ip, "-n", name]
            subprocess.run(
                [*inside, "address", "add", f"10.77.0.{rank + 1}/24", "dev", f"tl{rank}"], check=True
            )
            subprocess.run([*inside, "link", "set", f"tl{rank}", "up"], check=True)
            subprocess.run([*inside, "link", "set", "lo", "up"], check=True)
        yield two
    finally:
        two.kill()
        for name in names:
            subprocess.run([ip, "netns", "delete", name], capture_output=True, check=False)


@pytest.fixture(scope="module")
def one(tmp_path_factory, data):
    """A project trained by one process."""
    project = prepared(tmp_path_factory.mktemp("one"), data, launch="auto")
    assert launcher.run(project) == [0], launcher.output(project)
    return project


def assert_same_curves(project: Path, expected: Path) -> None:
    for name in ("loss", "validation"):
        ours, theirs = (launcher.curve(folder, name) for folder in (project, expected))
        assert [row[0] for row in ours] == [row[0] for row in theirs]
        difference = max(abs(a[1] - b[1]) for a, b in zip(ours, theirs, strict=True))
        print(f"{name}: largest difference {difference:.1e} over {len(ours)} rows")
        assert difference <= 1e-4


def test_machines_with_networks_of_their_own_have_the_losses_of_one_process(namespaces, one, tmp_path, data):
    project = prepared(tmp_path, data)
    (code, printed), (other_code, other_printed) = map(ended, namespaces.start_both(project))
    assert (code, other_code) == (0, 0), printed + other_printed
    assert (
        f"train: machine 0 of 2 (0 is the main one, 10.77.0.1:{namespaces.port}), 2 processes on all"
        in printed
    )
    assert_same_curves(project, one)
    devices = json.loads((project / "reports/provenance/train.json").read_text())["devices"]
    assert devices["processes"] == 2
    assert list(project.glob("checkpoints/*/step-*")) == []


@pytest.mark.promise("lost-machine")
def test_killed_process_and_killed_machine_end_the_others_and_the_restart_resumes(machines, tmp_path, data):
    project = prepared(tmp_path, data, **LONG)
    main, other = machines.start_both(project)
    launcher.wait_for(project / "checkpoints", "step-00000010")
    training = psutil.Process(other.pid).children(recursive=True)[-1]
    assert "stages.train" in training.cmdline()
    since = time.monotonic()
    training.kill()
    code, printed = last_lines(main, since)
    assert code == 75
    assert "another machine is lost: " in printed
    assert "Start the training on all machines again: `dvc repro` resumes from step " in printed
    code, printed = last_lines(other, since)
    assert code == 128 + signal.SIGKILL
    assert "killed by signal 9 (SIGKILL)" in printed

    done = max(int(path.name[5:]) for path in project.glob("checkpoints/*/step-*"))
    main, other = machines.start_both(project)
    launcher.wait_for(project / "checkpoints", f"step-{done // 5 * 5 + 15:08d}")
    since = time.monotonic()
    kill_all(main)
    code, printed = last_lines(other, since)
    assert code == 75
    assert "another machine is lost: " in printed
    assert f"resumes from step {done} of" in main.communicate()[0]


def test_machine_that_waits_for_the_others_ends_on_a_signal(machines, tmp_path, data):
    """It waits in a native function, in which Python's handlers do not run."""
    project = prepared(tmp_path, data)
    machines.port = launcher.free_port()
    waiting = [machines.start(1, project), machines.start(0, project)]  # at different ports
    deadline = time.monotonic() + MINUTE
    while not listening(machines.port):
        assert time.monotonic() < deadline
        time.sleep(0.5)
    for process, number in zip(waiting, (signal.SIGTERM, signal.SIGINT), strict=True):
        since = time.monotonic()
        process.send_signal(number)
        code, printed = last_lines(process, since)
        assert code == 75
        assert "train: stopped. `dvc repro` starts again, from the last checkpoint if there is one" in printed


def test_process_that_does_not_find_the_others_says_so(tmp_path, data):
    """The launcher of its machine has found the main machine of a run that was about to end."""
    project = prepared(tmp_path, data)
    store = TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False)
    before = store.num_keys()
    env = {
        "RANK": "1",
        "LOCAL_RANK": "0",
        "WORLD_SIZE": "2",
        "LOCAL_WORLD_SIZE": "1",
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": str(store.port),
        "GLOO_SOCKET_IFNAME": "lo",
    }
    children = launcher.start(project, env=env)
    while store.num_keys() == before:
        time.sleep(0.1)
    time.sleep(1)  # now it waits for the keys of rank 0
    del store
    assert launcher.finish(children) == [1]
    printed = launcher.output(project)
    assert "did not find each other: " in printed
    assert "Traceback" not in printed


@pytest.mark.promise("different-machines")
def test_machines_with_other_inputs_or_other_checkpoints_are_refused(machines, tmp_path, data):
    project, clone = prepared(tmp_path / "project", data), prepared(tmp_path / "clone", data)
    for _, printed in map(ended, machines.start_both(project, clone)):
        assert "does not see checkpoints/" in printed
        assert "Let the machines share the project's folder" in printed
    shutil.rmtree(clone / "checkpoints", ignore_errors=True)
    (clone / "checkpoints").symlink_to(project / "checkpoints")
    tiny_task.write_data(clone, rows=ROWS + 1)
    for code, printed in map(ended, machines.start_both(project, clone)):
        assert code == 1
        assert "would train different models: data: data/tokenized/train.parquet is " in printed
        assert "Traceback" not in printed


def test_file_that_changed_during_the_training_is_named(project, accelerated, monkeypatch):
    """Hashes are kept while a file is untouched: this one has another byte, but the size and the time of
    before."""
    params = tiny_task.params()
    accelerator = create_accelerator(params)
    for name, value in {"WORLD_SIZE": "2", "LOCAL_WORLD_SIZE": "1"}.items():
        monkeypatch.setenv(name, value)
    before = common_identity(accelerator, params, [])
    check_unchanged(accelerator, before, params, [])
    path = project / "data/tokenized/train.parquet"
    status = path.stat()
    with path.open("r+b") as file:
        file.write(b"?")
    os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))
    with pytest.raises(
        StageError,
        match=r"tokenized/train\.parquet",
    ):
        check_unchanged(accelerator, before, params, [])


@pytest.fixture
def slurm(tmp_path, data) -> Path:
    """A project with DVC and the recipe, and a folder ``commands`` with two of SLURM's."""
    project = prepared(tmp_path / "project", data)
    shutil.copytree(ROOT / "conf/cluster", project / "conf/cluster")
    (project / "dvc.yaml").write_text(DVC_YAML)
    (project / ".venv").symlink_to(sys.prefix)
    (project / "commands").mkdir()
    for name, program in {"srun": SRUN, "scontrol": SCONTROL}.items():
        (project / "commands" / name).write_text(f"#!{sys.executable}\n{program}")
        (project / "commands" / name).chmod(0o755)
    subprocess.run([sys.executable, "-m", "dvc", "init", "--no-scm", "--quiet"], cwd=project, check=True)
    return project


def test_recipe_of_slurm_trains_on_both_machines_of_the_job(slurm, one):
    """Both are this one."""
    job = {
        "SLURM_JOB_ID": str(os.getpid()),
        "SLURM_NNODES": "2",
        "SLURM_JOB_NODELIST": "node[1-2]",
        "SLURM_SUBMIT_DIR": str(slurm),
    }
    env = {
        **environment(),
        **job,
        "GLOO_SOCKET_IFNAME": "lo",
        "PATH": f"{slurm / 'commands'}:{os.environ['PATH']}",
    }
    command = ["bash", "conf/cluster/slurm.sh", "train"]
    run = subprocess.run(command, cwd=slurm, env=env, capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stdout + run.stderr
    assert all(f"train: machine {rank} of 2 " in run.stdout + run.stderr for rank in (0, 1))
    assert_same_curves(slurm, one)
    again = subprocess.run(command, cwd=slurm, env=env, capture_output=True, text=True, check=True)
    assert "Stage 'train' didn't change, skipping" in again.stdout
