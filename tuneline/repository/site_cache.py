"""DVC's site cache: a folder in which DVC keeps indices, as pickles.

By default, DVC makes one folder for all users of the machine, and a pickle executes what its writer wants.
``python -m tuneline.repository.site_cache`` makes one for this checkout, which only its owner may open, and
names it in DVC's local settings.
"""

from pathlib import Path

from tuneline.paths import SITE_CACHE
from tuneline.repository.dvc import local_settings


def make_private(root: Path) -> None:
    """Make the folder, and name it in ``.dvc/config.local``."""
    folder = root.resolve() / SITE_CACHE
    folder.parent.mkdir(parents=True, exist_ok=True)
    folder.mkdir(mode=0o700, exist_ok=True)
    with local_settings(root) as settings:
        settings.setdefault("core", {})["site_cache_dir"] = str(folder)


if __name__ == "__main__":
    make_private(Path())
