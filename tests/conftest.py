"""What every test stands on: no network, no telemetry, one thread per worker."""

import os
from pathlib import Path

import pytest

# Before any library is imported: they read these at import. Workers of one run share the cores, so each takes one,
# unless another number is asked for.
os.environ.update(
    {
        "DO_NOT_TRACK": "1",
        "DVC_NO_ANALYTICS": "1",
        "GX_ANALYTICS_ENABLED": "false",
        "HF_HUB_DISABLE_TELEMETRY": "1",
        "HF_HUB_OFFLINE": "1",
        "PREFECT_SERVER_ANALYTICS_ENABLED": "false",
    }
)
os.environ.setdefault("OMP_NUM_THREADS", "1")

ROOT = Path(__file__).resolve().parents[1]
SHARED = ROOT.parent / "shared"


@pytest.fixture(scope="session")
def root() -> Path:
    """The root of the project."""
    return ROOT


@pytest.fixture(scope="session")
def shared() -> Path:
    """Real input beside the checkout; tests that want it skip where it is not."""
    if not SHARED.is_dir():
        pytest.skip(f"{SHARED} is not there: real input lies beside the checkout only on some machines")
    return SHARED


@pytest.fixture(autouse=True, scope="session")
def homes(tmp_path_factory: pytest.TempPathFactory):
    """Tools that keep state in a home folder get one that goes with the test run."""
    home = tmp_path_factory.mktemp("home")
    with pytest.MonkeyPatch.context() as patch:
        for name in ("HF_HOME", "PREFECT_HOME", "DVC_SITE_CACHE_DIR"):
            patch.setenv(name, str(home / name.lower()))
        yield
