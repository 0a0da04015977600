"""``tuneline upgrade``: bring parameters and settings of an adopted repository to a new version.

It is called after a merge of that version. Every value of the user stays. New keys get their defaults, and
keys that an earlier version had are translated by the table ``MIGRATIONS``. In files of the user that the
merge left in conflict, the user's version counts.
"""

import difflib
import sys
from collections.abc import Callable, Mapping
from copy import deepcopy
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import typer
from ruamel.yaml.comments import CommentedMap

from tuneline.params.loading import default_values, load_params, missing_keys
from tuneline.params.params_file import Changes, dump_commented, get_value, inline, load_commented, write
from tuneline.paths import PARAMS
from tuneline.repository.git import git
from tuneline.runtime.errors import StageError
from tuneline.runtime.terminal import say
from tuneline.settings import SETTINGS, load_settings

BASE, TASKS = Path("conf/base.yaml"), Path("conf/task")
OF_THE_USER = (PARAMS.as_posix(), "dvc.lock", "conf", "metrics")
"""Files and folders whose version is the user's where a merge left a conflict."""


def _moved_to(key: str) -> Callable[[Any], Changes]:
    """Return the translation of a key that has another name now."""
    return lambda value: {key: value}


def _set_to_default(*keys: str) -> Callable[[Any], Changes]:
    """Return the translation of a key whose value says nothing about the keys that replaced it."""
    return lambda _: {key: get_value(default_values(), key) for key in keys}


def _bad_rows(drop_incomplete: bool) -> Changes:
    """Leave out any number of bad rows where the user had incomplete rows dropped; else stop."""
    if drop_incomplete:
        return {"data.bad_rows": "skip", "data.max_bad_share": 1.0}
    return {"data.bad_rows": "stop"}


MIGRATIONS: Mapping[str, Callable[[Any], Changes]] = {
    "train.checkpoint_every_steps": _moved_to("run.checkpoint_every_steps"),
    "train.checkpoint_every_minutes": _moved_to("run.checkpoint_every_minutes"),
    "train.checkpoint_every_epochs": _moved_to("run.checkpoint_every_epochs"),
    "train.keep_checkpoints": _moved_to("run.keep_checkpoints"),
    "train.trackers": _moved_to("run.trackers"),
    "data.drop_incomplete": _bad_rows,
    "compare.close": _set_to_default("compare.close_rmse"),
}
"""Keys that were renamed or replaced, each with the function that makes the values of the new keys."""


def upgrade_settings(values: CommentedMap) -> None:
    """Remove what an earlier version had from ``conf/flows.yaml``, in place.

    No branch for a pull request is written any more: a request is opened from the branch of a run.
    """
    promotion = values.get("promotion")
    if not isinstance(promotion, CommentedMap):
        return
    promotion.pop("push_options", None)
    if promotion.get("take_over") == "pull_request":
        promotion["take_over"] = "none"


def upgrade(values: CommentedMap, complete: bool) -> None:
    """Translate the keys of an earlier version, in place.

    If ``complete``, the keys that are missing are added, with their defaults. A task has only those that it
    changes.
    """
    # translate: the first new key takes over the comment of the old one
    translated: dict[str, tuple[Any, Any]] = {}
    for old_key, translate in MIGRATIONS.items():
        section_name, _, name = old_key.rpartition(".")
        section = get_value(values, section_name)
        if not isinstance(section, CommentedMap) or name not in section:
            continue
        comment = section.ca.items.pop(name, None)
        for key, value in translate(section.pop(name)).items():
            translated[key] = value, comment
            comment = None

    # complete
    if complete:
        for key in missing_keys(values):
            if _has_key(default_values(), key):
                _set_value(values, key, get_value(default_values(), key))

    # set what was translated last, so that it stays
    for key, (value, comment) in translated.items():
        _set_value(values, key, value, comment)


def _has_key(values: Any, key: str) -> bool:
    """Return True if there is a dotted key, whose value may be ``None``."""
    section_name, _, name = key.rpartition(".")
    section = get_value(values, section_name) if section_name else values
    return section is not None and name in section


def _set_value(values: CommentedMap, key: str, value: Any, comment: Any = None) -> None:
    """Set a value by its dotted key: in its place if it is there, else where the defaults have it."""
    *section_names, name = key.split(".")

    # go to the section, which may be new
    section, order = values, default_values()
    for section_name in section_names:
        if section.get(section_name) is None:
            section.pop(section_name, None)
            _insert(section, section_name, CommentedMap(), order)
        section = section[section_name]
        order = order.get(section_name) or {}

    # set the value; a whole section gets a line for each of its keys
    if name in section:
        section[name] = inline(value)
    elif not section_names and isinstance(value, dict):
        lines = CommentedMap({inner: inline(inner_value) for inner, inner_value in value.items()})
        _insert(section, name, lines, order)
    else:
        _insert(section, name, inline(value), order)
    if comment is not None:
        section.ca.items.setdefault(name, comment)


def _insert(section: CommentedMap, name: str, value: Any, order: Mapping[str, Any]) -> None:
    """Insert a key behind the last one that the defaults have before it."""
    ordered = list(order)
    earlier = ordered[: ordered.index(name)] if name in ordered else ordered
    position = 0
    for index, key in enumerate(section):
        if key in earlier:
            position = index + 1
    section.insert(position, name, value)


@dataclass(frozen=True)
class Revision:
    """A file of the user that changes: its text as it is and as it will be.

    Attributes:
        before: Its text; in a conflict, the text that the user had before the merge.
        conflict: True if a merge left a conflict in it.
    """

    path: Path
    before: str
    after: str
    conflict: bool

    def print(self) -> None:
        """Print what changes."""
        if self.conflict:
            say(f"{self.path}: conflict; your version counts")
        name = str(self.path)
        for line in difflib.unified_diff(
            self.before.splitlines(), self.after.splitlines(), name, name, n=1, lineterm=""
        ):
            say(line)


def revisions() -> list[Revision]:
    """Return the files of the user that change, or that have a conflict."""
    unmerged = git(Path(), "diff", "--name-only", "--diff-filter=U", "--", *OF_THE_USER).splitlines()
    conflicts = {Path(name) for name in unmerged if Path(name).exists() and _has_markers(Path(name))}
    with_keys = {PARAMS, *TASKS.glob("*.yaml")}
    for path in (BASE, SETTINGS):
        if path.exists():
            with_keys.add(path)

    changed_files = []
    for path in sorted(with_keys | conflicts):
        conflict = path in conflicts
        if conflict:
            # stage 2 of git's index is the version of the branch that was merged into
            before = git(Path(), "show", f":2:{path.as_posix()}") + "\n"
        else:
            before = path.read_text(encoding="utf-8")

        after = before
        if path in with_keys:
            values = load_commented(path, before if conflict else None)
            original = deepcopy(values)
            if path == SETTINGS:
                upgrade_settings(values)
            else:
                upgrade(values, complete=path in (PARAMS, BASE))
            # an unchanged file keeps its layout
            if values != original:
                after = dump_commented(values)

        if conflict or after != before:
            changed_files.append(Revision(path, before, after, conflict))
    return changed_files


def _has_markers(path: Path) -> bool:
    """Return True unless a person has resolved the conflict."""
    return any(line.startswith("<<<<<<< ") for line in path.read_text(encoding="utf-8").splitlines())


Yes = Annotated[bool, typer.Option("--yes", help="Write without asking")]


def command(yes: Yes = False) -> None:
    """Bring params.yaml and conf/ to this version: your values stay, new keys get their defaults."""
    changed_files = revisions()
    for revision in changed_files:
        revision.print()

    # consent
    if changed_files and not yes:
        if not sys.stdin.isatty():
            raise StageError(
                "nothing was written: cannot ask without a terminal.", "Add --yes to write without asking."
            )
        if not typer.confirm("Write this?", default=True):
            raise StageError("nothing was written.")

    for revision in changed_files:
        write(revision.path, revision.after)
    # an error names what only a person can decide, such as values that contradict each other now
    load_params()
    load_settings(Path())

    if not changed_files:
        say("params.yaml and conf/ have the keys of this version.")
        return
    say("\nThe parameters are valid. `dvc repro` runs the stages whose code is new once more;")
    say("`dvc commit -f` accepts the results that are here instead.")
    if any(revision.conflict for revision in changed_files):
        say("Conclude the merge: git add --all && git commit")
