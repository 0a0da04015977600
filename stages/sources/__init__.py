"""Where rows come from: the embedded sample, files, or the hub."""

from stages.params import DataParams
from stages.sources.reading import Reading, Source, Wanted

__all__ = ["Reading", "Source", "Wanted", "open_source"]


def open_source(params: DataParams, seed: int) -> Source:
    """The source that ``data.source`` names."""
    from stages.sources.sample import Sample  # noqa: PLC0415 - each source imports what only it needs

    return Sample(params.sample, seed)
