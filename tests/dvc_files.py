"""What ``dvc init``, ``dvc config`` and ``dvc remote add`` write, for tests of something else: each command of DVC takes a second."""

import configparser
import subprocess
from pathlib import Path


def init_dvc(root: Path) -> None:
    """Make a git repository one of DVC, and stage the files as ``dvc init`` does."""
    (root / ".dvc").mkdir()
    files = {".dvc/.gitignore": "/config.local\n/tmp\n/cache\n", ".dvc/config": "", ".dvcignore": ""}
    for name, text in files.items():
        (root / name).write_text(text)
    subprocess.run(["git", "add", *files], cwd=root, check=True)


def configure_dvc(root: Path, section: str, *, local: bool = False, **values: str) -> None:
    """Set values in a section of ``.dvc/config``, or of ``.dvc/config.local``, which git ignores."""
    path = root / ".dvc" / ("config.local" if local else "config")
    config = configparser.ConfigParser(interpolation=None)
    config.read(path)
    config.read_dict({section: values})
    with path.open("w") as file:
        config.write(file)


def add_remote(root: Path, url: Path | str, name: str = "shelf", *, default: bool = True, local: bool = False, **values: str) -> None:
    """Add a DVC remote; its folder is there, as that of a mounted disk."""
    if isinstance(url, Path):
        url.mkdir(parents=True, exist_ok=True)
    configure_dvc(root, f"'remote \"{name}\"'", local=local, url=str(url), **values)
    if default:
        configure_dvc(root, "core", local=local, remote=name)
