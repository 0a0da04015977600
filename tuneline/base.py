"""``models/base/``: the pretrained model and tokenizer that the stage ``base`` has brought into the project."""

from tuneline.errors import StageError
from tuneline.params import Params
from tuneline.paths import BASE, BASE_RECORD
from tuneline.records.source import BaseSource


def read_base(params: Params) -> BaseSource:
    """Return the origin of ``models/base/``.

    Raises:
        DataError: The stage ``base`` has not run.
        StageError: It ran with other parameters.
    """
    source = BaseSource.read(BASE_RECORD, "The stage 'base' writes it: run `dvc repro base`.")
    named = {
        "model.checkpoint": (params.model.checkpoint, source.checkpoint),
        "tokenize.tokenizer": (params.tokenize.tokenizer or params.model.checkpoint, source.tokenizer),
    }
    for key, (name, present) in named.items():
        if name != (present and present.name):
            raise StageError(f"{key} is {name}, but {BASE} has {present.name if present else 'none'}.", "Run `dvc repro base`.")
    return source
