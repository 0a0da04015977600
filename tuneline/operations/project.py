"""A project: a git repository with what is the user's, and the engine, this package, in its environment.

``tuneline new`` writes it from the files at the top of this repository, which a wheel has in
``tuneline/template/``. The first commit has these files as the engine has them; a trailer says so. ``tuneline
upgrade`` commits those of another engine on top of it and merges that commit, so git knows from which lines
the user's changes began.
"""

import importlib.metadata
import io
import json
import shutil
import tomllib
from pathlib import Path
from typing import Any

from ruamel.yaml import YAML
from ruamel.yaml.comments import CommentedMap, CommentedSeq

from tuneline.core.params.loading import default_values, missing_keys, read_yaml
from tuneline.core.params.params_file import changed, get_value, write
from tuneline.core.paths import ENGINE, PARAMS, PIPELINE
from tuneline.core.repository.dvc import make_site_cache_private
from tuneline.core.repository.git import GitError, git, require_own_repository, run_git
from tuneline.core.repository.worktrees import at_commit
from tuneline.core.runtime.errors import StageError
from tuneline.core.runtime.files import working_directory
from tuneline.core.runtime.terminal import say
from tuneline.core.stage.code import INSTALLED, engine_record, installed_version

TEMPLATE = INSTALLED / "tuneline/template"
TRAILER = "Tuneline-Template"
"""Trailer with the tree of a commit that has the engine's files.

A commit that was amended or squashed since then has another tree: its files may be the user's.
"""


def create_project(folder: Path) -> None:
    """Create a project in a new folder: a git and DVC repository with a first commit.

    Raises:
        StageError: The folder exists.
        GitError: Git cannot create or commit it.
    """
    if folder.exists():
        raise StageError(f"{folder} exists.", "Name a folder that does not exist yet.")
    with working_directory(folder) as partial:
        run_git(partial, "init", "--quiet", "--initial-branch=main")
        write_template(partial)
        write_engine(partial)
        commit_template(partial, f"Start a project with tuneline {installed_version()}")
        partial.rename(folder)
    make_site_cache_private(folder)


def upgrade_project(root: Path) -> list[str]:
    """Bring a project to the installed engine, and return the stages whose code differs.

    Commits are made: of the template, of its merge, and of new parameters and hashes.

    Raises:
        StageError: There is no project, files are not committed, or the merge has conflicts, which are left
            to the user.
    """
    require_own_repository(root)
    if not (root / ENGINE).exists():
        raise StageError(
            f"{root.resolve()} has no {ENGINE}, so it is no project of an installed engine.",
            "`tuneline new DIR` makes one. In a checkout of Tuneline, git merge does what this command does.",
        )
    if git(root, "status", "--porcelain", "--untracked-files=no"):
        raise StageError("Files have changes that are not committed.", "Commit what `git status` names.")

    merge_template(root)
    before = read_yaml(root / ENGINE)["stages"]
    add_parameters(root / PARAMS)
    write_engine(root)
    run_git(root, "add", str(PARAMS), str(ENGINE))
    if git(root, "status", "--porcelain", "--untracked-files=no"):
        run_git(root, "commit", "--quiet", "--message", f"Use tuneline {installed_version()}")
    after = read_yaml(root / ENGINE)["stages"]
    return [stage for stage in after if before.get(stage) != after[stage]]


def merge_template(root: Path) -> None:
    """Commit the engine's files on top of those that the project was made with, and merge them."""
    with at_commit(root, template_commit(root)) as tree:
        write_template(tree)
        run_git(tree, "checkout", "--", str(PARAMS))  # what is new in it is added to the user's file
        if not git(tree, "status", "--porcelain"):
            return
        template = commit_template(tree, f"Files of tuneline {installed_version()}")
    message = f"Merge the files of tuneline {installed_version()}"
    try:
        run_git(root, "merge", "--quiet", "--message", message, template)
    except GitError as error:
        conflicts = git(root, "diff", "--name-only", "--diff-filter=U")
        if not conflicts:
            raise
        raise StageError(
            f"You and tuneline {installed_version()} changed the same lines: {', '.join(conflicts.split())}.",
            "Resolve the conflicts and `git commit`, then `tuneline upgrade` again; or `git merge --abort`.",
        ) from error


def template_commit(root: Path) -> str:
    """Return the latest commit of this branch that has the engine's files as they were.

    Raises:
        StageError: There is none.
    """
    lines = git(root, "log", f"--grep=^{TRAILER}: ", f"--format=%H %T %(trailers:key={TRAILER},valueonly)")
    for line in lines.splitlines():
        commit, tree, *recorded = line.split() or ["", ""]
        if recorded == [tree]:
            return commit
    raise StageError(
        f"No commit of this branch has the files of an engine unchanged, which a trailer {TRAILER} says.",
        "`tuneline new` in another folder has the files of the installed engine: merge them by hand.",
    )


def commit_template(tree: Path, subject: str) -> str:
    """Commit all files with the trailer, and return the commit."""
    run_git(tree, "add", "--all")
    written = run_git(tree, "write-tree")
    run_git(tree, "commit", "--quiet", "--message", f"{subject}\n\n{TRAILER}: {written}")
    return run_git(tree, "rev-parse", "HEAD")


# --- files


def template_files() -> dict[Path, Path]:
    """Return where the engine has each file of a project.

    A checkout of the engine has most of them at its top (``setup.py``).
    """
    files = {}
    for path in TEMPLATE.rglob("*"):
        if path.is_file() and path.suffix != ".pyc":  # pip compiles the pages
            files[path.relative_to(TEMPLATE)] = path
    if PIPELINE not in files:
        settings = tomllib.loads((INSTALLED / "pyproject.toml").read_text(encoding="utf-8"))
        for pattern in settings["tool"]["tuneline"]["template"]:
            for path in INSTALLED.glob(pattern):
                if path.is_file():
                    files.setdefault(path.relative_to(INSTALLED), path)
    return files


def write_template(folder: Path) -> None:
    """Write the files of a project into a folder."""
    for name, path in template_files().items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(path, folder / name)
    pipeline = folder / PIPELINE
    pipeline.write_text(pipeline_of_project(pipeline.read_text(encoding="utf-8")), encoding="utf-8")
    pyproject = folder / "pyproject.toml"
    text = pyproject.read_text(encoding="utf-8").replace('"tuneline"', f'"{requirement()}"')
    pyproject.write_text(text, encoding="utf-8")


def pipeline_of_project(text: str) -> str:
    """Return ``dvc.yaml`` with hashes of ``engine.yaml`` in place of the folders of ``tuneline/``."""
    yaml = YAML()
    yaml.width = 1000
    yaml.indent(mapping=2, sequence=4, offset=2)
    content = yaml.load(text)
    for name, stage in content["stages"].items():
        for dep in list(stage["deps"]):
            if dep.startswith("tuneline/"):
                stage["deps"].remove(dep)
        keys = CommentedSeq([f"stages.{name}"])
        keys.fa.set_flow_style()
        stage.setdefault("params", CommentedSeq()).append(CommentedMap({ENGINE.name: keys}))
    stream = io.StringIO()
    yaml.dump(content, stream)
    return stream.getvalue()


def requirement() -> str:
    """Return what installs this engine again: its commit, the file it was installed from, or its version."""
    origin = importlib.metadata.distribution("tuneline").read_text("direct_url.json")
    if origin is None:
        return f"tuneline=={installed_version()}"
    record = json.loads(origin)
    if "vcs_info" in record:
        return f"tuneline @ {record['vcs_info']['vcs']}+{record['url']}@{record['vcs_info']['commit_id']}"
    return f"tuneline @ {record['url']}"


def write_engine(folder: Path) -> None:
    """Write ``engine.yaml``: what ``require_engine`` and DVC compare."""
    stream = io.StringIO()
    stream.write("# Written by `tuneline new` and `tuneline upgrade`: what each stage runs of the engine.\n")
    YAML().dump(engine_record(folder), stream)
    write(folder / ENGINE, stream.getvalue())


def add_parameters(path: Path) -> None:
    """Add the parameters that the engine has and the file lacks, with their defaults, and name them."""
    values = read_yaml(path)
    defaults: dict[str, Any] = default_values()
    new = {key: get_value(defaults, key) for key in missing_keys(values)}
    if not new:
        return
    write(path, changed(path, new))
    say(f"{path.name} has new parameters, with their defaults: {', '.join(new)}")
