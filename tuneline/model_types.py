"""Check of a pretrained model's type, before its weights are fetched."""

from importlib.metadata import version

from tuneline.errors import StageError
from tuneline.params.model import ENCODERS, UNSUPPORTED
from tuneline.pretrained import Pretrained


def check_model_type(checkpoint: Pretrained) -> None:
    """Check that the checkpoint's model type can be trained: transformers has a classifier for it, without code of the repository.

    Raises:
        StageError: It does not.
    """
    from transformers import CONFIG_MAPPING
    from transformers.models.auto.modeling_auto import MODEL_FOR_SEQUENCE_CLASSIFICATION_MAPPING_NAMES

    config = checkpoint.config()
    model_type = config.get("model_type")
    name, library = f"{checkpoint.key}: {checkpoint.label}", f"transformers {version('transformers')}"
    if reason := UNSUPPORTED.get(model_type or ""):
        raise StageError(f"{name} is of type {model_type!r}, which cannot be trained: {reason}.", f"Choose {ENCODERS}.")
    if model_type in MODEL_FOR_SEQUENCE_CLASSIFICATION_MAPPING_NAMES:
        return
    if model_type in CONFIG_MAPPING:
        raise StageError(
            f"{name} is of type {model_type!r}, for which {library} has no text classifier.",
            f"Choose {ENCODERS}.",
        )
    if "auto_map" in config:
        raise StageError(
            f"{name} needs Python code from its repository (model_type {model_type!r}, auto_map), which is never run.",
            "Choose a checkpoint of a type that transformers has; some repositories have a revision or a successor for it.",
        )
    if model_type is None:
        raise StageError(f"{name}: config.json has no model_type.", "Copy it to models/source/ and add model_type, such as 'bert'.")
    raise StageError(f"{name} is of type {model_type!r}, which {library} does not have.", "A newer transformers may have it: make lock.")
