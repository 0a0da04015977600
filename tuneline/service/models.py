"""Where the model of a service comes from, and the one that answers now."""

from dataclasses import dataclass, replace
from pathlib import Path

from tuneline.core.hashes import file_hash
from tuneline.onnx.probes import check_probes
from tuneline.onnx.text_classifier import TextClassifier
from tuneline.onnx.usage import EXPORT_RECORD, exported_file
from tuneline.repository.promoted_models import ModelRepository
from tuneline.runtime.errors import StageError


@dataclass(frozen=True)
class FolderSource:
    """A folder of exported models, as ``dvc repro`` and ``dvc checkout`` replace it.

    Attributes:
        folder: The folder, or one ONNX file in it.
        precision: Precision of the model; ``None`` for fp32.
    """

    folder: Path
    precision: str | None

    def state(self) -> str:
        """Return what changes when another model is there."""
        return file_hash(self._models / EXPORT_RECORD)

    def load(self) -> TextClassifier:
        """Load the model, and check what it computes.

        Raises:
            StageError: It cannot be used, or is being replaced: what was loaded can be of two models.
        """
        state = self.state()
        model = TextClassifier.load(self.folder, self.precision, threads=1)
        check_probes(model, self._models)
        exported_file(self.folder, self.precision)
        if self.state() != state:
            raise StageError(f"{self._models} was replaced while the model was loaded.", "Try again.")
        return model

    @property
    def _models(self) -> Path:
        """The folder of models."""
        return self.folder.parent if self.folder.is_file() else self.folder


@dataclass(frozen=True)
class RegistrySource:
    """The model of a stage of the registry.

    Attributes:
        repository: Folder of a checkout, or the address of a repository.
        stage: The stage.
        precision: Precision of the model; ``None`` for fp32.
    """

    repository: str
    stage: str
    precision: str | None

    def state(self) -> str:
        """Return the commit of the version that is in the stage."""
        return ModelRepository(self.repository).version(self.stage).commit

    def load(self) -> TextClassifier:
        """Load the model, and check what it computes."""
        models = ModelRepository(self.repository)
        version = models.version(self.stage)
        with models.files(version) as folder:
            model = TextClassifier.load(folder, self.precision, threads=1)
            check_probes(model, folder)
        return replace(model, version=version.name)


ModelSource = FolderSource | RegistrySource
