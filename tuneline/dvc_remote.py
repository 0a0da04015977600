"""The DVC remote of a project: push the outs of commits, and find out whether it has an out.

``dvc push --all-tags`` takes the address of the remote from ``.dvc/config`` of each commit. If that is older than the remote, it
pushes nothing of it, without a message. Here, the remote is that of the working tree.

``python -m tuneline.dvc_remote push COMMIT...`` and ``has MD5`` (exit code 1 if not) are run in the project.
"""

import sys
from pathlib import Path
from typing import Any

from tuneline.terminal import say, visible


def main() -> None:
    """Run the command line."""
    from dvc.exceptions import DvcException

    action, *names = sys.argv[1:]
    try:
        if action == "has":
            sys.exit(not has(Path(), names[0]))
        for commit in names:
            if lost := push(Path(), commit):
                shown = ", ".join(lost[:5]) + " ..." * (len(lost) > 5)
                say(f"ERROR: of {commit[:12]}, neither the cache nor the DVC remote has {shown}")
    except DvcException as error:
        sys.exit(visible(f"ERROR: {error}"))


def push(root: Path, commit: str) -> list[str]:
    """Push the outs of a commit to the default remote.

    Returns:
        The paths that are neither in the cache nor in the remote.

    Raises:
        DvcException: There is no default remote, or the upload failed.
    """
    from dvc.repo import Repo

    with Repo(str(root)) as repo:
        outs: dict[Any, str] = {}
        for _ in repo.brancher(revs=[commit], workspace=False):
            cached = (out for out in repo.index.outs if out.use_cache and out.can_push and not out.stage.is_repo_import)
            outs.update({out.hash_info: str(out) for out in cached if out.hash_info})
        repo.cloud.push(outs)
        status = repo.cloud.status(outs)
    return sorted({outs.get(lost) or str(lost.obj_name or lost.value) for lost in status.missing | status.new})


def has(root: Path, md5: str) -> bool:
    """Return True if the default remote has an out: DVC uploads the list of a folder's files after the files.

    Args:
        root: Root of the project.
        md5: Hash of the out, as in ``dvc.lock``.

    Raises:
        DvcException: There is no default remote.
    """
    from dvc.repo import Repo

    with Repo(str(root)) as repo:
        return bool(repo.cloud.get_remote_odb().exists(md5))


if __name__ == "__main__":
    main()
