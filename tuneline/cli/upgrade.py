"""``tuneline upgrade``: bring the parameters of an adopted repository to the version of its code, after a merge of a new one.

Every value of the user stays. New keys get their defaults, and keys that an earlier version had are
translated by the table ``MIGRATIONS``. In files of the user that the merge left in conflict, the user's
version counts.
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

from tuneline.core.errors import StageError
from tuneline.core.paths import PARAMS
from tuneline.core.terminal import say
from tuneline.params.loading import default_values, load_params, missing_keys
from tuneline.params.model import STRUCTURE
from tuneline.project.params_file import Changes, dump_commented, get_value, inline, load_commented, write
from tuneline.project.repo import git

BASE, TASKS = Path("conf/base.yaml"), Path("conf/task")
OF_THE_USER = (PARAMS.as_posix(), "dvc.lock", "conf", "metrics")
"""Files and folders whose version is the user's where a merge left a conflict."""


@dataclass(frozen=True)
class Migration:
    """A key that an earlier version had, and what returns the values that replace its value, by dotted key.

    Attributes:
        redefined: True if the new keys existed before, with another meaning. Else values that the file has
            for them stay.
    """

    old: str
    translate: Callable[[Any], Changes]
    redefined: bool = False


def _moved(old: str, new: str) -> Migration:
    return Migration(old, lambda value: {new: value})


def _of_all_rows(_: int) -> Changes:
    """``similarity`` had another meaning when only some rows were compared, and ``max`` belongs to it."""
    defaults = default_values()["validate"]["near_duplicates"]
    return {f"validate.near_duplicates.{name}": defaults[name] for name in ("max", "similarity")}


_MOVED = (
    "checkpoint_every_steps",
    "checkpoint_every_minutes",
    "checkpoint_every_epochs",
    "keep_checkpoints",
    "trackers",
)
MIGRATIONS = (
    *(_moved(f"train.{name}", f"run.{name}") for name in _MOVED),
    Migration(
        "data.drop_incomplete",
        lambda drop: (
            {"data.bad_rows": "skip", "data.max_bad_share": 1.0} if drop else {"data.bad_rows": "stop"}
        ),
    ),
    Migration("validate.near_duplicates.rows", _of_all_rows, redefined=True),
    Migration(
        "compare.close", lambda _: {"compare.close_rmse": get_value(default_values(), "compare.close_rmse")}
    ),
)
"""All keys that were renamed or replaced since the oldest supported version, the first with ``conf/base.yaml``."""


def consequences(values: Mapping[str, Any]) -> Changes:
    """Return values that keep the meaning of others, by dotted key: what was allowed is refused without them."""
    changes: dict[str, Any] = {}
    if get_value(values, "export.int8.reduce_range") is False and "allow_saturation" not in (
        get_value(values, "compare.int8") or {}
    ):
        changes["compare.int8.allow_saturation"] = True
    config = get_value(values, "model.config") or {}
    if get_value(values, "model.checkpoint") is not None and STRUCTURE & config.keys():
        changes["model.config"] = {
            key: value for key, value in config.items() if key not in STRUCTURE
        } or None
    return changes


def upgrade(values: CommentedMap, complete: bool) -> None:
    """Translate the keys of an earlier version, in place.

    If ``complete``, the keys that are missing are added, with their defaults. A task has only those that it
    changes.
    """
    changes: dict[str, tuple[Any, Any]] = {key: (value, None) for key, value in consequences(values).items()}
    for migration in MIGRATIONS:
        section, _, name = migration.old.rpartition(".")
        old = get_value(values, section)
        if isinstance(old, CommentedMap) and name in old:
            comment = old.ca.items.pop(name, None)
            for key, value in migration.translate(old.pop(name)).items():
                if migration.redefined or not has_value(values, key):
                    changes[key] = value, comment
                    comment = None
    for key in missing_keys(values) if complete else ():
        if has_value(default_values(), key):
            set_value(values, key, get_value(default_values(), key))
    for key, (value, comment) in changes.items():
        set_value(values, key, value, comment)


def has_value(values: Any, key: str) -> bool:
    """Return True if there is a dotted key, whose value may be ``None``."""
    section, _, name = key.rpartition(".")
    return name in ((get_value(values, section) if section else values) or {})


def set_value(values: CommentedMap, key: str, value: Any, comment: Any = None) -> None:
    """Set a value by its dotted key: in its place if it is there, else where the defaults have it."""
    order: Mapping[str, Any] = default_values()
    *sections, last = key.split(".")
    for name in sections:
        if values.get(name) is None:
            values.pop(name, None)
            _insert(values, name, CommentedMap(), order)
        values, order = values[name], order.get(name) or {}
    if last in values:
        values[last] = inline(value)
    elif not sections and isinstance(value, dict):
        _insert(values, last, CommentedMap({name: inline(entry) for name, entry in value.items()}), order)
    else:
        _insert(values, last, inline(value), order)
    if comment is not None:
        values.ca.items.setdefault(last, comment)


def _insert(values: CommentedMap, name: str, value: Any, order: Mapping[str, Any]) -> None:
    names = list(order)
    before = names[: names.index(name)] if name in names else names
    places = [place for place, other in enumerate(values) if other in before]
    values.insert(places[-1] + 1 if places else 0, name, value)


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
    with_keys = {PARAMS, *filter(Path.exists, [BASE]), *TASKS.glob("*.yaml")}
    found = []
    for path in sorted(with_keys | conflicts):
        conflict = path in conflicts
        before = after = (
            git(Path(), "show", f":2:{path.as_posix()}") + "\n"
            if conflict
            else path.read_text(encoding="utf-8")
        )
        if path in with_keys:
            values = load_commented(path, before if conflict else None)
            former = deepcopy(values)
            upgrade(values, complete=path in (PARAMS, BASE))
            after = before if values == former else dump_commented(values)
        if conflict or after != before:
            found.append(Revision(path, before, after, conflict))
    return found


def _has_markers(path: Path) -> bool:
    """Return True unless a person has resolved the conflict."""
    return any(line.startswith("<<<<<<< ") for line in path.read_text(encoding="utf-8").splitlines())


Yes = Annotated[bool, typer.Option("--yes", help="Write without asking")]


def command(yes: Yes = False) -> None:
    """Bring params.yaml and conf/ to the version of the code: your values stay, new keys get their defaults."""
    found = revisions()
    for revision in found:
        revision.print()
    if found and not yes:
        if not sys.stdin.isatty():
            raise StageError(
                "nothing was written: cannot ask without a terminal.", "Add --yes to write without asking."
            )
        if not typer.confirm("Write this?", default=True):
            raise StageError("nothing was written.")
    for revision in found:
        write(revision.path, revision.after)
    # an error names what only a person can decide, such as values that contradict each other now
    load_params()
    if not found:
        say("params.yaml and conf/ have the keys of this version.")
        return
    say("\nThe parameters are valid. `dvc repro` runs the stages whose code is new once more;")
    say("`dvc commit -f` accepts the results that are here instead.")
    if any(revision.conflict for revision in found):
        say("Conclude the merge: git add --all && git commit")
