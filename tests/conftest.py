"""Settings and fixtures of all tests: no network, no telemetry, one thread per worker, no GPU (except for
tests marked ``gpu``)."""

import fcntl
import gc
import os
import signal
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import settings
from xdist.remote import Producer
from xdist.scheduler import LoadScopeScheduling

from tuneline import NO_TELEMETRY

# Libraries read these variables when they are imported, so they are set first. The workers of one run share
# the cores, so each uses one thread, unless OMP_NUM_THREADS is set.
os.environ.update(
    {
        **NO_TELEMETRY,
        "ACCELERATE_USE_CPU": "true",  # outs of two runs have the same bytes on a CPU only
        "HF_HUB_OFFLINE": "1",
    }
)
os.environ.setdefault("OMP_NUM_THREADS", "1")
for name in [name for name in os.environ if name.startswith("PREFECT_API_")]:
    del os.environ[name]  # else what tests roll back is told to the people of that server
# A background job of a shell ignores Ctrl-C (after nohup SIGHUP, too), and so would every program that a test
# starts and interrupts.
signal.signal(signal.SIGINT, signal.default_int_handler)
signal.signal(signal.SIGHUP, signal.SIG_DFL)

ROOT = Path(__file__).resolve().parents[1]
SHARED = ROOT.parent / "shared"


# A busy machine is no failure.
settings.register_profile("without_deadline", deadline=None)
settings.load_profile("without_deadline")

SERVER = {
    f"tests/{name}.py"
    for name in (
        "flows/test_score",
        "flows/test_train",
        "tuneline/operations/server/several_modules/test_proxy",
        "tuneline/operations/server/test_crashes",
        "tuneline/operations/server/test_deploy",
        "tuneline/operations/server/test_schedule",
    )
}
"""Modules whose tests of the default suite use the one Prefect server of a session."""
LONG = (
    "pipeline/test_pipeline",
    "tuneline/training/several_modules/test_resume",
)
FIRST = {*SERVER, *(f"tests/{name}.py" for name in LONG)}
"""What takes longest: a worker that began it last would work on alone when all others are done."""


def module(nodeid: str) -> str:
    return nodeid.partition("::")[0]


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Producer) -> LoadScopeScheduling:
    """Let one worker run all tests of the server: its start takes most of a minute.

    Other modules go to the next free worker.
    """

    class Scheduling(LoadScopeScheduling):
        def _split_scope(self, nodeid: str) -> str:
            return "server" if module(nodeid) in SERVER else module(nodeid)

    return Scheduling(config, log)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Sort what takes longest to the front."""
    for item in items:
        uses_server = "served" in getattr(item, "fixturenames", ()) and not any(item.iter_markers("slow"))
        assert not uses_server or module(item.nodeid) in SERVER, (
            f"{item.nodeid} uses the server: add its module to SERVER"
        )
    items.sort(key=lambda item: module(item.nodeid) not in FIRST)


def made_once(factory: pytest.TempPathFactory, name: str, make: Callable[[Path], None]) -> Path:
    """Return a folder that the first worker of a session makes while the others wait for it; only copy it."""
    shared = factory.getbasetemp()
    if "PYTEST_XDIST_WORKER" in os.environ:
        shared = shared.parent
    folder, complete = shared / name, shared / f"{name}.complete"
    with (shared / f"{name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not complete.exists():
            make(folder)
            complete.touch()
    return folder


@pytest.fixture(autouse=True, scope="module")
def frozen() -> None:
    """Leave what earlier modules imported out of the search for garbage: it takes a second once all libraries
    are loaded."""
    gc.collect()
    gc.freeze()


@pytest.fixture(scope="session")
def root() -> Path:
    """Return the root of the project."""
    return ROOT


@pytest.fixture(scope="session")
def shared() -> Path:
    """Return the folder with real data next to the checkout; skip the test if there is none."""
    if not SHARED.is_dir():
        pytest.skip(f"{SHARED} does not exist: only some machines have real data next to the checkout")
    return SHARED


@pytest.fixture(scope="session")
def pretrained_hub() -> Path:
    """Return a folder with the repositories of a hub, among them a real pretrained encoder; skip the test if
    there is none."""
    root = Path(os.environ.get("TUNELINE_TEST_HUB", SHARED / "hub"))
    if not (root / "models/sentence-transformers/all-MiniLM-L6-v2/model.safetensors").exists():
        pytest.skip("TUNELINE_TEST_HUB names no folder with models/sentence-transformers/all-MiniLM-L6-v2")
    return root


@pytest.fixture(autouse=True, scope="session")
def homes(tmp_path_factory: pytest.TempPathFactory):
    """Give tools that keep state in a home folder a temporary one for the test run, and git settings of its
    own: a person may have none, or sign commits."""
    home = tmp_path_factory.mktemp("home")
    settings = home / "gitconfig"
    settings.write_text("[user]\n\tname = Test\n\temail = test@example.org\n")
    with pytest.MonkeyPatch.context() as patch:
        for name in ("HF_HOME", "PREFECT_HOME", "DVC_SITE_CACHE_DIR", "TUNELINE_MACHINE_LOCKS"):
            patch.setenv(name, str(home / name.lower()))
        patch.setenv("GIT_CONFIG_GLOBAL", str(settings))
        for name in [name for name in os.environ if name.startswith(("GIT_AUTHOR_", "GIT_COMMITTER_"))]:
            patch.delenv(name)  # it would override the names that tests write to the settings of their clones
        yield
