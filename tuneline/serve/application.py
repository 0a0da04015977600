"""The application: which path answers what.

``POST /predict`` and ``/`` speak as text-embeddings-inference.
``/v1/predictions`` and ``/v1/why`` have everything that the page at ``/`` shows.
"""

import asyncio
import contextlib
import os
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import asdict, dataclass, field
from importlib import resources
from typing import Any

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp

from tuneline.core.stage.machine import threads
from tuneline.serve.engine import Engine
from tuneline.serve.guard import PAGE_FILES, RequestGuard
from tuneline.serve.log import LOG, address_of
from tuneline.serve.models import ModelSource, ServedModel
from tuneline.serve.requests import (
    ServiceLimits,
    error_response,
    field_of,
    read_json,
    texts_of_request,
)
from tuneline.serve.tei import read_tei, tei_answer, tei_info
from tuneline.serve.text_classifier import TextClassifier

SECONDS = (0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 30)
"""Bounds of the histogram of time."""
Endpoint = Callable[[Request], Awaitable[Response]]


@dataclass(frozen=True)
class ServiceSettings:
    """Settings of a service.

    Attributes:
        source: Where the model comes from.
        name: Name of the model in ``/info`` and on the page.
        limits: What requests may take.
        token: What clients must send; ``None``: nothing.
        hosts: Names by which the service is asked; empty: those of this machine, or with a token any.
        reload_seconds: How often the source of the model is looked at.
    """

    source: ModelSource
    name: str = "tuneline"
    limits: ServiceLimits = field(default_factory=ServiceLimits)
    token: str | None = field(default=None, repr=False)
    hosts: frozenset[str] = frozenset()
    reload_seconds: float = 10.0


class Service:
    """A model behind the paths of the application.

    Attributes:
        settings: Its settings.
        model: The model that answers.
        engine: What computes.
        woken: Set to look at the source of the model at once.
    """

    def __init__(self, settings: ServiceSettings) -> None:
        """Load the model, and start the workers.

        Raises:
            StageError: The model cannot be used.
        """
        # Threads of the tokenizer would only take the cores from the workers (docs/benchmarks.md). It reads
        # the variable at every call.
        os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
        self.settings = settings
        self.engine = Engine(max(1, threads() // settings.source.threads), settings.limits)
        self.woken = asyncio.Event()

        self.model = ServedModel(settings.source)

        # what is counted, in which no text is
        registry = CollectorRegistry()
        self.seconds = Histogram(
            "tuneline_request_seconds",
            "Time of a request",
            ["endpoint", "status"],
            buckets=SECONDS,
            registry=registry,
        )
        self._predictions = Counter(
            "tuneline_predictions", "Rows by version and answer", ["version", "answer"], registry=registry
        )
        self._waiting = Gauge("tuneline_waiting_rows", "Rows without an answer yet", registry=registry)
        self._version = Gauge(
            "tuneline_model", "1 for the version that answers", ["version"], registry=registry
        )
        self._registry = registry

    @contextlib.asynccontextmanager
    async def running(self, _app: Starlette) -> AsyncIterator[None]:
        """Follow the source of the model while the application runs."""
        following = asyncio.create_task(self.model.follow(self.settings.reload_seconds, self.woken))
        try:
            yield
        finally:
            following.cancel()
            await asyncio.to_thread(self.engine.stop)

    # -- paths

    async def tei(self, request: Request) -> Response:
        """Answer as text-embeddings-inference."""
        model = self.model.current
        asked = read_tei(await read_json(request, self.settings.limits), model, self.settings.limits)
        predictions, logits = await self.engine.answer(model, asked.texts, truncate=asked.truncate)
        answer = tei_answer(asked, predictions, logits)
        if request.url.path == "/" and not asked.is_batch:
            answer = [answer]  # as the hub answers, whose client takes the first row
        return self._response(model, predictions, answer)

    async def predictions(self, request: Request) -> Response:
        """Answer with everything that predictions have."""
        model = self.model.current
        body = await read_json(request, self.settings.limits)
        rows = field_of(body, "rows", model.text_columns, several=True)
        texts = texts_of_request(rows, model.text_columns, self.settings.limits)
        predictions, _ = await self.engine.answer(model, texts)
        answer = {"version": model.version, "predictions": [asdict(each) for each in predictions]}
        return self._response(model, predictions, answer)

    async def why(self, request: Request) -> Response:
        """Say which words of a row move its answer most.

        The prediction counts as no other, as whoever asks why has the answer already.
        """
        model = self.model.current
        body = await read_json(request, self.settings.limits)
        row = field_of(body, "row", model.text_columns)
        (texts,) = texts_of_request([row], model.text_columns, self.settings.limits)

        effects = await self.engine.explain(model, texts)
        (prediction,), _ = await self.engine.answer(model, [texts])
        answer = {
            "version": model.version,
            "prediction": asdict(prediction),
            "effects": [asdict(effect) for effect in effects],
        }
        return self._response(model, [], answer)

    async def health(self, _request: Request) -> Response:
        """Say that the service answers."""
        return Response()

    async def info(self, _request: Request) -> Response:
        """Describe the model as text-embeddings-inference does."""
        return JSONResponse(tei_info(self.model.current, self.settings.name, self.settings.limits))

    async def metrics(self, _request: Request) -> Response:
        """Return what was counted, in the format of Prometheus."""
        self._waiting.set(self.engine.waiting_rows)
        self._version.clear()
        self._version.labels(self.model.current.version).set(1)
        return Response(generate_latest(self._registry), media_type="text/plain; version=0.0.4")

    # -- parts of them

    def _response(self, model: TextClassifier, predictions: list[Any], content: Any) -> Response:
        """Return an answer, whose header names the version that answered; its predictions are counted."""
        for prediction in predictions:
            answer = "none" if prediction.abstained else prediction.label or "predicted"
            self._predictions.labels(model.version, answer).inc()
        return JSONResponse(content, headers={"tuneline-version": model.version})


def application(service: Service) -> ASGIApp:
    """Return the application of a service."""
    routes = [
        Route("/", service.tei, methods=["POST"]),
        Route("/predict", service.tei, methods=["POST"]),
        Route("/v1/predictions", service.predictions, methods=["POST"]),
        Route("/v1/why", service.why, methods=["POST"]),
        Route("/health", service.health),
        Route("/info", service.info),
        Route("/metrics", service.metrics),
    ]
    for path, (package, name, media_type) in PAGE_FILES.items():
        content = (resources.files(package) / "templates" / name).read_bytes()
        routes.append(Route(path, _file(content, media_type), methods=["GET"]))

    app = Starlette(
        routes=routes,
        lifespan=service.running,
        exception_handlers={
            HTTPException: _refused,
            ClientDisconnect: _client_left,
        },
    )
    app.router.redirect_slashes = False  # to the Host of the request, whoever named it
    settings = service.settings
    return RequestGuard(app, settings.token, settings.hosts, service.seconds, settings.limits.waiting_bytes)


def _file(content: bytes, media_type: str) -> Endpoint:
    async def page_file(_request: Request) -> Response:
        return Response(content, media_type=media_type)

    return page_file


async def _refused(request: Request, error: Exception) -> Response:
    """Answer a request that is refused, or is for a path that there is not."""
    if not isinstance(error, HTTPException):
        raise error
    if error.status_code == 424:
        LOG.error("%s: the model failed: %s", address_of(request.scope), error.__cause__)
    return error_response(error)


async def _client_left(_request: Request, _error: Exception) -> Response:
    """Nobody reads this."""
    return Response(status_code=499)
