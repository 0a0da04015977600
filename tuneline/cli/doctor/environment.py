"""Python and its packages: is what runs here what the lock says?"""

import shutil
import sys
from collections.abc import Iterator, Mapping
from importlib.metadata import distributions
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version

from tuneline.cli.doctor.finding import Finding, error, ok, warning

OLDEST, NEWEST = (3, 11), (3, 13)
SHOWN = 6


def look(root: Path) -> Iterator[Finding]:
    """Looks at the interpreter, the programs that stages call, and the packages."""
    yield python(sys.version_info[:2])
    yield programs(Path(sys.prefix), shutil.which("python"), shutil.which("accelerate"), shutil.which("dvc"))
    yield packages(root / "requirements.txt", installed())


def python(version: tuple[int, ...]) -> Finding:
    """Whether this Python is one that the lock was made for."""
    name = ".".join(map(str, version))
    if OLDEST <= version <= NEWEST:
        return ok(f"Python {name}")
    return error(f"Python {name}; 3.11 to 3.13 are supported", "make clean && make setup PYTHON=python3.12")


def programs(prefix: Path, *found: str | None) -> Finding:
    """Whether the programs that stages are started with are those of this environment: ``dvc repro`` finds them by PATH."""
    home = (prefix / "bin").resolve()
    elsewhere = [path or "none" for path in found if path is None or Path(path).parent.resolve() != home]
    if not elsewhere:
        return ok(f"python, accelerate and dvc are those of {home}")
    return warning(f"PATH finds {', '.join(elsewhere)} before {home}", f"source {home}/activate   (make run does so by itself)")


def installed() -> dict[str, str]:
    """Version of every package in this environment, by its canonical name."""
    return {canonicalize_name(found.name): found.version for found in distributions() if found.name}


def packages(lock: Path, versions: Mapping[str, str]) -> Finding:
    """Whether every pinned package is there in its pinned version. Builds (``+cpu``) of one version count as the same."""
    if not lock.exists():
        return error(f"{lock} is not there", "Run this in the root of the project.")
    pins = [Requirement(line) for line in lock.read_text(encoding="utf-8").splitlines() if line[:1].isalnum()]
    wanted = {canonicalize_name(pin.name): str(pin.specifier)[2:] for pin in pins if pin.marker is None or pin.marker.evaluate()}
    wrong = [
        f"{name} {versions.get(name, 'missing')} (pinned: {version})"
        for name, version in wanted.items()
        if name not in versions or Version(versions[name]).public != Version(version).public
    ]
    if not wrong:
        return ok(f"{len(wanted)} packages as pinned")
    more = f", and {len(wrong) - SHOWN} more" if len(wrong) > SHOWN else ""
    return error(f"not as pinned: {', '.join(wrong[:SHOWN])}{more}", "make setup")
