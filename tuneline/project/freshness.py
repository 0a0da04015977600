"""What of a project is of another run: metrics or a page that do not belong to the present model, or parameters that have changed since."""

import hashlib
from pathlib import Path

from tuneline.core.errors import ParamsError
from tuneline.core.files import read_yaml
from tuneline.core.paths import METRICS, PARAMS
from tuneline.project.dvc import Lock
from tuneline.project.repo import CLASSIFIER, EVALUATED

MARK = "tuneline-result"
"""Name of the ``meta`` element of the page with the key of the result that it shows."""
MOST_KEYS = 5
SETTINGS = ("data", "tokenize", "model", "train", "evaluate")
"""Sections of ``params.yaml`` that make a result another one; ``seed`` is a value of its own."""


def result_key(root: Path, lock: Lock) -> str:
    """Return a key of the model in ``dvc.lock`` and of the metrics in the working tree: what a page is about."""
    digest = hashlib.sha256(str(lock.out(CLASSIFIER)).encode())
    for stage in ("train", "evaluate", "compare"):
        path = root / METRICS / f"{stage}.json"
        digest.update(path.read_bytes() if path.exists() else b"-")
    return digest.hexdigest()


def is_of_this_result(root: Path, lock: Lock, page: Path) -> bool:
    """Return True if a page shows the present result."""
    return f'<meta name="{MARK}" content="{result_key(root, lock)}">' in page.read_text(encoding="utf-8", errors="replace")


def outdated(root: Path, lock: Lock) -> str | None:
    """Return one sentence if the metrics are not those of the present model, or parameters have changed since the run; else ``None``."""
    recorded, path = lock.out(EVALUATED), root / EVALUATED
    if recorded and path.exists() and recorded != hashlib.md5(path.read_bytes(), usedforsecurity=False).hexdigest():
        return f"{EVALUATED} is of another run than dvc.lock. Run `dvc repro`; or `git checkout {EVALUATED} dvc.lock`."
    scored = {dep["path"]: dep["md5"] for dep in lock.stages.get("evaluate", {}).get("deps", [])}.get(CLASSIFIER)
    if scored and scored != lock.out(CLASSIFIER):
        return "The metrics are of the model before this one, which is not evaluated yet. Run `dvc repro`."
    if changed := changed_params(root, lock):
        names = ", ".join(changed[:MOST_KEYS]) + (", ..." if len(changed) > MOST_KEYS else "")
        return f"This is the result of other parameters than those in {PARAMS} now ({names}). Run `dvc repro`."
    return None


def changed_params(root: Path, lock: Lock) -> list[str]:
    """Return the keys whose values in ``params.yaml`` differ from those of the run; none if the file is missing or invalid."""
    try:
        present = read_yaml(root / PARAMS)
    except ParamsError:
        return []
    if not isinstance(present, dict):
        return []
    now = {"seed": present.get("seed")}
    now |= {f"{name}.{key}": value for name in SETTINGS for key, value in (present.get(name) or {}).items()}
    return [key for key, value in lock.params().items() if key in now and now[key] != value]
