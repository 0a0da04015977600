"""Settings of flow ``ingest``."""

from pathlib import Path
from typing import Annotated, Self
from urllib.parse import urlsplit

from pydantic import Field, model_validator

from flows.settings.section import Count, Seconds, Section

Name = Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9-]{0,39}$")]
Variable = Annotated[str, Field(pattern=r"^[A-Za-z_][A-Za-z0-9_]*$")]
KINDS = ("folder", "url", "query", "hub")


class IngestSource(Section):
    """A source of new labelled rows: one of a drop folder, a URL, a database query, or a branch of the hub.

    Attributes:
        name: Part of the names of its batch files.
        folder: Drop folder, relative to the repository. Files that were ingested are moved to its folder ``done/``.
        settle_seconds: folder: seconds since its last change before a file is read.
        url: Address of a file for fsspec, or a pattern with ``*``.
        options: url: storage options, each by the name of the environment variable that has its value.
        query: SQL file, relative to the repository. The connection is read-only.
        database: query: environment variable with the SQLAlchemy URL of the database.
        watermark: query: column whose largest value is the parameter ``:since`` of the next run.
        since: query: value of ``:since`` in the first run.
        hub: Follow ``revision`` of the data set that ``data.path`` names.
        revision: hub: branch or tag.
        id: Column of an id. A file or query with it and without the text columns has late labels of scored texts.
    """

    name: Name
    folder: Path | None = None
    settle_seconds: Seconds = 10
    url: str | None = None
    options: dict[str, Variable] = {}
    query: Path | None = None
    database: Variable | None = None
    watermark: str | None = None
    since: str | int | None = None
    hub: bool = False
    revision: str = "main"
    id: str | None = None

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        kinds = [kind for kind in KINDS if getattr(self, kind)]
        if len(kinds) != 1:
            raise ValueError(f"{self.name}: must have exactly one of {', '.join(KINDS)}, not {' and '.join(kinds) or 'none'}")
        if self.query and not self.database:
            raise ValueError(f"{self.name}: query needs database, the name of the environment variable with the database's URL")
        if self.watermark and self.since is None:
            raise ValueError(f"{self.name}: watermark needs since, the value of :since in the first run")
        if self.url and urlsplit(self.url).password is not None:
            raise ValueError(f"{self.name}: url contains a password; name an environment variable in options instead")
        for path in filter(None, (self.folder, self.query)):
            if path.is_absolute() or ".." in path.parts:
                raise ValueError(f"{self.name}: {path} is outside the repository")
        return self


class Ingest(Section):
    """Settings of flow ``ingest``.

    Attributes:
        branch: Branch that new data is committed to.
        push: Push the data to the DVC remote and the branch to ``origin``. A run then starts from ``origin``'s branch.
        min_rows: Fewer new rows than this wait for the next run.
        key: Column that identifies a row; ``None``: its texts alone do.
        sources: The sources, in the order in which they are read.
    """

    branch: Annotated[str, Field(pattern=r"^[^-\s][^\s]*$")] = "main"
    push: bool = False
    min_rows: Count = 1
    key: str | None = None
    sources: list[IngestSource] = []

    @model_validator(mode="after")
    def _unique(self) -> Self:
        names = [source.name for source in self.sources]
        if duplicate := next((name for name in names if names.count(name) > 1), None):
            raise ValueError(f"sources: {duplicate!r} is the name of two sources")
        return self
