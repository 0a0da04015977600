"""Which stages run again after a change of a parameter, from ``dvc.yaml``."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

from tuneline.params.loading import read_yaml

MARKERS = frozenset({"reports/checks/passed"})
"""Outs that only say that a stage passed. Their content never changes, so what depends on nothing else of that stage is not rerun."""


@dataclass(frozen=True)
class Reruns:
    """Stages that run again after a change of a parameter.

    Attributes:
        readers: Stages that read the parameter.
        followers: Stages after them, each of which runs again if one of its inputs has changed.
    """

    readers: tuple[str, ...]
    followers: tuple[str, ...] = ()

    def __str__(self) -> str:
        if not self.readers:
            return "no stage"
        readers = ", ".join(self.readers)
        if not self.followers:
            return readers
        return f"{readers}; then {', '.join(self.followers)} if {'their' if len(self.followers) > 1 else 'its'} inputs change"


@dataclass(frozen=True)
class StageGraph:
    """The stages of ``dvc.yaml``.

    Attributes:
        params: Listed parameters and sections, by stage.
        deps: Paths of the dependencies, by stage.
        outs: Paths of the outs, metrics among them, by stage.
    """

    params: Mapping[str, tuple[str, ...]]
    deps: Mapping[str, tuple[str, ...]]
    outs: Mapping[str, tuple[str, ...]]

    @classmethod
    def read(cls, path: Path) -> Self:
        """Read ``dvc.yaml``.

        Raises:
            ParamsError: The file is missing or is not valid YAML.
        """
        stages = (read_yaml(path) or {}).get("stages") or {}
        outs = {name: sum((_names(stage, kind) for kind in ("outs", "metrics", "plots")), ()) for name, stage in stages.items()}
        params = {name: _names(stage, "params") for name, stage in stages.items()}
        return cls(params, {name: _names(stage, "deps") for name, stage in stages.items()}, outs)

    def reruns(self, key: str) -> Reruns:
        """Return the stages that run again after a change of a parameter, or of any parameter of a section."""
        readers = {name for name, listed in self.params.items() if any(_contains(key, entry, ".") for entry in listed)}
        reached = set(readers)
        while following := {name for name in self.deps if name not in reached and any(self._feeds(stage, name) for stage in reached)}:
            reached |= following
        followers = reached - readers
        return Reruns(tuple(name for name in self.deps if name in readers), tuple(name for name in self.deps if name in followers))

    def _feeds(self, stage: str, other: str) -> bool:
        deps = [dep for dep in self.deps[other] if dep not in MARKERS]
        return any(_contains(out, dep, "/") for out in self.outs[stage] for dep in deps)


def _contains(one: str, other: str, separator: str) -> bool:
    """Return True if two keys or paths are equal, or if one is inside the other."""
    return one == other or one.startswith(f"{other}{separator}") or other.startswith(f"{one}{separator}")


def _names(stage: Mapping[str, Any], kind: str) -> tuple[str, ...]:
    """Return the names in a list of a stage, whose entries are a name or a name with options."""
    return tuple(str(next(iter(entry)) if isinstance(entry, dict) else entry) for entry in stage.get(kind, []))
