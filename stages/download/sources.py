"""Where rows come from: the embedded sample, files, or the hub."""

from stages.download.reading import Reading, Source, Wanted
from tuneline.params import DataParams

__all__ = ["Reading", "Source", "Wanted", "open_source"]


def open_source(params: DataParams, seed: int) -> Source:
    """The source that ``data.source`` names. Each is imported only when it is wanted, and what it needs with it.

    Raises:
        DataError: The source is not there.
    """
    if params.source == "files":
        from stages.download.files import Files

        return Files(params.path, params.files)
    if params.source == "hub":
        from stages.download.hub import Hub

        return Hub(str(params.path), params.name, params.revision)
    from stages.download.sample import Sample

    return Sample(params.sample, seed)
