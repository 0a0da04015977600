"""Drop folders of flow ``ingest``: which of their files have labelled rows that wait to be ingested."""

from pathlib import Path

from tuneline.readers.formats import ENDINGS


def labelled_files(folder: Path) -> list[Path]:
    """List the files that are read, by name: with a known ending, neither hidden nor links.

    None if there is no folder.
    """
    if not folder.is_dir():
        return []
    return [path for path in sorted(folder.iterdir()) if _is_read(path)]


def _is_read(path: Path) -> bool:
    has_ending = path.name.lower().endswith(ENDINGS)
    is_hidden = path.name.startswith((".", "_"))
    return has_ending and not is_hidden and path.is_file() and not path.is_symlink()
