"""Where the model of a service comes from, and the one that answers now.

It is replaced while requests are answered, by one that was checked. A request keeps the model that was there
when it came, so none is lost and none is answered by two. A model that is damaged, computes other numbers
than at its export, or has other inputs or outputs, never gets a request: the one before answers on.
"""

import asyncio
import contextlib
from abc import ABC, abstractmethod
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tuneline.core.repository.promoted_models import ModelRepository
from tuneline.core.runtime.errors import StageError
from tuneline.core.stage.records import file_hash
from tuneline.model.tasks import Regression
from tuneline.onnx.probes import check_probes
from tuneline.onnx.usage import EXPORT_RECORD, NO_MODEL, exported_file
from tuneline.serve.log import LOG
from tuneline.serve.text_classifier import TextClassifier

if TYPE_CHECKING:
    from tuneline.serve.model_choice import RequiredRisk


def contract(model: TextClassifier) -> dict[str, Any]:
    """Return what clients of a model rely on: its inputs and outputs."""
    task = model.task
    return {
        "text_columns": model.text_columns,
        "task": task.kind,
        "labels": task.class_names,
        "has_interval": isinstance(task, Regression) and task.half_width is not None,
    }


@dataclass(frozen=True)
class ModelSource(ABC):
    """Where a model comes from.

    Attributes:
        place: A folder of exported models, or one ONNX file in it; or a checkout or the address of a
            repository.
        precision: Precision of the model; ``None`` for fp32.
        required: What is required of its answers; ``None``: nothing.
        threads: Threads of a forward pass.
    """

    place: Path | str
    precision: str | None
    required: "RequiredRisk | None" = None
    threads: int = 1

    @abstractmethod
    def state(self) -> str:
        """Return what changes when another model is there; a ``StageError`` if there is none."""

    @abstractmethod
    def load(self) -> TextClassifier:
        """Load the model, and check what it computes.

        Raises:
            StageError: It cannot be used, or cannot promise what is required.
        """

    def checked_model(self, path: Path) -> TextClassifier:
        """Load a model from its files, check what it computes, and set which rows it answers."""
        model = TextClassifier.load(path, self.precision, self.threads)
        check_probes(model, models_folder(path))
        if self.required is None:
            return model
        # SciPy and Arrow, which a service without promises does not need
        from tuneline.serve.model_choice import promised_rule

        return replace(model, rule=promised_rule(model, exported_file(path, self.precision), self.required))


class FolderSource(ModelSource):
    """A folder of exported models, as ``dvc repro`` and ``dvc checkout`` replace it."""

    def state(self) -> str:
        """Return the hash of the record of the models."""
        folder = models_folder(Path(self.place))
        if not (folder / EXPORT_RECORD).is_file():
            raise StageError(f"{folder} has no exported model: {EXPORT_RECORD} is missing.", NO_MODEL)
        return file_hash(folder / EXPORT_RECORD)

    def load(self) -> TextClassifier:
        """Load the model; one that is being replaced is refused: what was loaded can be of two models."""
        state = self.state()
        model = self.checked_model(Path(self.place))
        exported_file(Path(self.place), self.precision)
        if self.state() != state:
            raise StageError(f"{self.place} was replaced while the model was loaded.", "Try again.")
        return model


class RegistrySource(ModelSource):
    """The model that is in production, as the registry of a repository says."""

    def state(self) -> str:
        """Return the commit of the version."""
        return ModelRepository(str(self.place)).version().commit

    def load(self) -> TextClassifier:
        """Load the model as that of a folder."""
        models = ModelRepository(str(self.place))
        version = models.version()
        with models.files(version) as folder:
            model = self.checked_model(folder)
        return replace(model, version=version.name)


def models_folder(path: Path) -> Path:
    """Return the folder of models that a path names, which may be a file in it."""
    return path.parent if path.is_file() else path


class ServedModel:
    """The model of a service, and where it comes from.

    Attributes:
        current: The model that gets the next request.
    """

    def __init__(self, source: ModelSource) -> None:
        """Load the model; a ``StageError`` says why it cannot be used."""
        self._source = source
        self._state = source.state()
        self.current = source.load()

    async def follow(self, seconds: float, woken: asyncio.Event) -> None:
        """Replace the model when its source changes: look every so many seconds, and when ``woken``."""
        while True:
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(woken.wait(), seconds)
            woken.clear()
            await self.look()

    async def look(self) -> None:
        """Replace the model if the source has another one that can be used."""
        try:
            state = await asyncio.to_thread(self._source.state)
            if state == self._state:
                return
            model = await asyncio.to_thread(self._source.load)
            if contract(model) != contract(self.current):
                problem = f"version {model.version} has other text columns, labels or outputs."
                raise StageError(problem, "Start the service anew to serve it.")
        except Exception as error:  # whatever is in the source now, the model before answers on
            LOG.warning("version %s answers on: %s", self.current.version, error)
            return
        LOG.info("version %s answers from now on, instead of %s", model.version, self.current.version)
        self._state = state
        self.current = model
