"""A hook of git that brings the user's data and weights when git has changed their ``.dvc`` files.

It runs after ``git pull``, ``git merge`` and ``git switch``.

``python -m tuneline.repository.git_hook`` installs it in this clone. ``dvc install`` installs other hooks:
there is none for ``git pull``, they check out all outs in the working tree of every run and experiment, and
they push to the DVC remote with every ``git push``.
"""

import shlex
import sys
from pathlib import Path

from tuneline.paths import BASE_SOURCE, SOURCE
from tuneline.repository.git import git
from tuneline.runtime.atomic_files import replace_file
from tuneline.runtime.errors import StageError
from tuneline.runtime.terminal import say

HOOKS = ("post-merge", "post-checkout")
_MARK = "# Written by Tuneline"
_NOTICE = (
    "(tuneline/repository/git_hook.py): dvc pull of the .dvc files that git has changed."
    " To stop that, remove this file."
)
_SCRIPT = """#!/bin/sh
{mark} {notice}

# In the working tree of a run or an experiment, Tuneline does it.
[ "$(git rev-parse --git-dir)" = "$(git rev-parse --git-common-dir)" ] || exit 0

# git gives post-checkout the commits before and after, and 1 unless only files were checked out.
before=ORIG_HEAD
if [ "$#" -eq 3 ]; then
    [ "$3" = 1 ] || exit 0
    before=$1
fi

git diff --name-only --diff-filter=d -z "$before" HEAD -- '{data}/*.dvc' '{weights}/*.dvc' |
    PATH={programs}:$PATH xargs --null --no-run-if-empty dvc pull --quiet ||
    echo 'Not all data is that of the .dvc files now. When the reason above is gone: dvc pull' >&2
"""


def is_installed(root: Path) -> bool:
    """Return True if this clone has the hook."""
    return all(_is_ours(path) for path in _files(root))


def install(root: Path) -> None:
    """Write the hook.

    Raises:
        StageError: The clone has another hook for the same event.
    """
    # All are checked before one is written.
    for path in _files(root):
        if path.exists() and not _is_ours(path):
            raise StageError(f"{path} is another hook.", "Add `dvc pull data/source/*.dvc` at its end.")

    programs = shlex.quote(str(Path(sys.executable).parent))
    script = _SCRIPT.format(mark=_MARK, notice=_NOTICE, data=SOURCE, weights=BASE_SOURCE, programs=programs)
    for path in _files(root):
        with replace_file(path) as partial:
            partial.write_text(script, encoding="utf-8")
            partial.chmod(0o755)


def _files(root: Path) -> list[Path]:
    """Return the paths of the hooks: by default in ``.git/hooks``."""
    folder = root / git(root, "rev-parse", "--git-path", "hooks")
    return [folder / name for name in HOOKS]


def _is_ours(path: Path) -> bool:
    return path.is_file() and _MARK in path.read_text(encoding="utf-8", errors="replace")


if __name__ == "__main__":
    try:
        install(Path())
    except StageError as error:
        sys.exit(str(error))
    say("git brings data, too, from now on in this clone: after pull, merge and switch.")
