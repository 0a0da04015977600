"""The application: which path answers what. Uvicorn serves it, or Ray Serve.

``POST /predict`` and ``/`` speak as text-embeddings-inference, ``/v2`` the Open Inference Protocol, and
``/classify`` as vLLM and SGLang. ``/v1/predictions`` and ``/v1/why`` have everything that the page at ``/``
shows.
"""

import asyncio
import contextlib
import itertools
import os
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp

from tuneline.core.machine import threads
from tuneline.program.text_classifier import TextClassifier
from tuneline.service.answering import AnsweredRows, answer_rows
from tuneline.service.bodies import parsed, read_body
from tuneline.service.counters import ServiceCounters
from tuneline.service.dialects.classify import classify_answer, read_classify
from tuneline.service.dialects.open_inference import (
    JSON_LENGTH,
    json_length,
    model_metadata,
    open_inference_answer,
    read_open_inference,
    require_model,
)
from tuneline.service.dialects.predictions import (
    predictions_answer,
    read_prediction_rows,
    read_why,
    why_answer,
)
from tuneline.service.dialects.tei import read_tei, refuse_other_side, tei_answer, tei_info
from tuneline.service.engine import Engine
from tuneline.service.errors import RequestError
from tuneline.service.explaining import Explainer, refuse_long_row
from tuneline.service.guard import RequestGuard, error_body
from tuneline.service.limits import ServiceLimits
from tuneline.service.models import ModelSource
from tuneline.service.page import page_routes
from tuneline.service.reloading import ServedModel
from tuneline.service.shadow import Shadow

VERSION_HEADER = "tuneline-version"
"""Header of an answer that names the version which answered."""
Endpoint = Callable[[Request], Awaitable[Response]]
Awaited = TypeVar("Awaited")


@dataclass(frozen=True)
class ServiceSettings:
    """Settings of a service.

    Attributes:
        source: Where the model comes from.
        name: Name of the model in the dialects that have one.
        workers: Threads that compute; ``None``: as many as have cores
            for their forward passes.
        limits: What requests may take.
        token: What clients must send; ``None``: nothing.
        hosts: Names by which the service is asked; empty: those of this machine, or with a token any.
        reload_seconds: How often the source of the model is looked at.
        shadow: Where a second version comes from that answers silently; ``None`` for none.
        shadow_share: Fraction of the rows that it answers.
        disagreements: File for rows that it answers in another way.
    """

    source: ModelSource
    name: str = "tuneline"
    workers: int | None = None
    limits: ServiceLimits = field(default_factory=ServiceLimits)
    token: str | None = field(default=None, repr=False)
    hosts: frozenset[str] = frozenset()
    reload_seconds: float = 10.0
    shadow: ModelSource | None = None
    shadow_share: float = 0.1
    disagreements: Path | None = None


class Service:
    """A model behind the paths of the application.

    Attributes:
        settings: Its settings.
        counters: What it counts.
        model: The model that answers.
        engine: What computes.
        woken: Set to look at the source of the model at once.
    """

    def __init__(self, settings: ServiceSettings) -> None:
        """Load the model, and start the workers.

        Raises:
            StageError: The model cannot be used.
        """
        # Rows are tokenized one by one: threads of the tokenizer would only take the cores from the workers
        # (docs/benchmarks.md). It reads the variable at every call.
        os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
        self.settings = settings
        self.counters = ServiceCounters()
        self.model = ServedModel(settings.source, self._count_reload)
        self.counters.version.labels(self.model.current.version).set(1)
        workers = settings.workers or max(1, threads() // settings.source.threads)
        self.engine = Engine(workers, settings.limits.waiting_rows, self.counters.count_batch)
        self.woken = asyncio.Event()
        self._explainer = Explainer(self.engine, settings.limits)
        self._numbers = itertools.count(1)
        self._tasks: set[asyncio.Task[None]] = set()
        self._shadow: Shadow | None = None
        if settings.shadow is not None:
            model = settings.shadow.load()
            self._shadow = Shadow(
                model, settings.shadow_share, self.engine, self._count_shadow, settings.disagreements
            )

    @contextlib.asynccontextmanager
    async def running(self, _app: Starlette) -> AsyncIterator[None]:
        """Follow the source of the model while the application runs."""
        following = asyncio.create_task(self.model.follow(self.settings.reload_seconds, self.woken))
        try:
            yield
        finally:
            following.cancel()
            await asyncio.to_thread(self.engine.stop)
            await asyncio.to_thread(self._explainer.stop)

    # -- paths

    async def tei(self, request: Request) -> Response:
        """Answer as text-embeddings-inference."""
        model = self.model.current
        body = parsed(await read_body(request, self.settings.limits))
        asked = read_tei(body, model, self.settings.limits)
        answered = await self._answer(request, model, asked.texts, truncate=asked.truncate)
        refuse_other_side(body, answered)
        return self._response(answered, tei_answer(asked, answered))

    async def classify(self, request: Request) -> Response:
        """Answer as vLLM and SGLang."""
        model = self.model.current
        body = parsed(await read_body(request, self.settings.limits))
        texts = read_classify(body, model, self.settings.name, self.settings.limits)
        answered = await self._answer(request, model, texts)
        return self._response(answered, classify_answer(self.settings.name, answered, next(self._numbers)))

    async def infer(self, request: Request) -> Response:
        """Answer in the Open Inference Protocol."""
        model = self._asked_model(request)
        content = await read_body(request, self.settings.limits)
        length = json_length(request.headers.get(JSON_LENGTH), content)
        body = parsed(content[:length])
        texts = read_open_inference(body, content[length:], model, self.settings.limits)
        answered = await self._answer(request, model, texts)
        answer = open_inference_answer(self.settings.name, body.get("id"), answered)
        return self._response(answered, answer)

    async def predictions(self, request: Request) -> Response:
        """Answer with everything that predictions have."""
        model = self.model.current
        body = parsed(await read_body(request, self.settings.limits))
        texts = read_prediction_rows(body, model, self.settings.limits)
        answered = await self._answer(request, model, texts)
        return self._response(answered, predictions_answer(answered))

    async def why(self, request: Request) -> Response:
        """Say which words of a row move its answer most.

        The prediction counts as no other, as whoever asks why has the answer already.
        """
        model = self.model.current
        body = parsed(await read_body(request, self.settings.limits))
        row = read_why(body, model, self.settings.limits)
        refuse_long_row(row)

        async def explained() -> Response:
            answered = await answer_rows(model, [row], self.engine, self.settings.limits)
            occlusion = await self._explainer.explain(answered)
            return self._response(answered, why_answer(answered, occlusion))

        return await _while_client_waits(request, explained())

    async def metadata(self, request: Request) -> Response:
        """Describe the model."""
        return JSONResponse(model_metadata(self.settings.name, self._asked_model(request)))

    async def model_ready(self, request: Request) -> Response:
        """Say that the model answers."""
        model = self._asked_model(request)
        return JSONResponse({"name": self.settings.name, "version": model.version, "ready": True})

    async def server(self, _request: Request) -> Response:
        """Describe the server."""
        return JSONResponse({"name": "tuneline", "version": "2", "extensions": ["binary_tensor_data"]})

    async def live(self, _request: Request) -> Response:
        """Say that the service runs."""
        return JSONResponse({"live": True, "ready": True})

    async def info(self, _request: Request) -> Response:
        """Describe the model as text-embeddings-inference does."""
        limits = self.settings.limits
        numbers = {
            "max_client_batch_size": limits.rows,
            "max_concurrent_requests": limits.waiting_rows,
        }
        return JSONResponse(tei_info(self.model.current, self.settings.name, numbers))

    async def metrics(self, _request: Request) -> Response:
        """Return the counters."""
        self.counters.waiting.set(self.engine.queue.waiting_rows)
        return Response(self.counters.page(), media_type="text/plain; version=0.0.4")

    # -- parts of them

    def _asked_model(self, request: Request) -> TextClassifier:
        """Return the model, if it is the one that the path names."""
        model = self.model.current
        path = request.path_params
        require_model(path["name"], path.get("version"), self.settings.name, model)
        return model

    async def _answer(
        self, request: Request, model: TextClassifier, texts: list[tuple[str, ...]], *, truncate: bool = True
    ) -> AnsweredRows:
        """Predict rows, as long as the client waits.

        Raises:
            ClientDisconnect: The client went away; its rows are computed no more.
        """
        answering = answer_rows(model, texts, self.engine, self.settings.limits, truncate=truncate)
        answered = await _while_client_waits(request, answering)
        self._count_answers(answered)
        if self._shadow is not None:
            task = asyncio.create_task(self._shadow.look(answered))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)
        return answered

    def _response(self, answered: AnsweredRows, content: Any) -> Response:
        return JSONResponse(content, headers={VERSION_HEADER: answered.model.version})

    def _count_answers(self, answered: AnsweredRows) -> None:
        for prediction in answered.predictions:
            answer = "none" if prediction.abstained else prediction.label or "predicted"
            self.counters.predictions.labels(answered.model.version, answer).inc()

    def count_status(self, status: int) -> None:
        """Count the answer to a request."""
        self.counters.requests.labels(str(status)).inc()

    def _count_reload(self, outcome: str) -> None:
        self.counters.reloads.labels(outcome).inc()
        if outcome == "loaded":
            self.counters.version.clear()
            self.counters.version.labels(self.model.current.version).set(1)

    def _count_shadow(self, outcome: str) -> None:
        if self._shadow is not None:
            self.counters.shadow.labels(self._shadow.model.version, outcome).inc()


async def _while_client_waits(request: Request, answering: Coroutine[Any, Any, Awaited]) -> Awaited:
    """Return what a coroutine returns; it is cancelled when the client goes away.

    Raises:
        ClientDisconnect: The client went away.
    """
    answer = asyncio.ensure_future(answering)
    leaving = asyncio.ensure_future(_left(request))
    try:
        await asyncio.wait({answer, leaving}, return_when=asyncio.FIRST_COMPLETED)
        if not answer.done():
            raise ClientDisconnect
        return answer.result()
    finally:
        answer.cancel()
        leaving.cancel()


async def _left(request: Request) -> None:
    """Return when the client has closed the connection."""
    while True:
        message = await request.receive()
        if message["type"] == "http.disconnect":
            return


def application(service: Service) -> ASGIApp:
    """Return the application of a service."""
    counters = service.counters

    def timed(path: str, endpoint: Endpoint) -> Endpoint:
        async def measured(request: Request) -> Response:
            started = time.perf_counter()
            try:
                return await endpoint(request)
            finally:
                counters.seconds.labels(path).observe(time.perf_counter() - started)

        return measured

    routes = []
    paths: Mapping[str, tuple[str, Endpoint]] = {
        "/predict": ("POST", service.tei),
        "/classify": ("POST", service.classify),
        "/v1/classify": ("POST", service.classify),
        "/v1/predictions": ("POST", service.predictions),
        "/v1/why": ("POST", service.why),
        "/v2/models/{name}/infer": ("POST", service.infer),
        "/v2/models/{name}/versions/{version}/infer": ("POST", service.infer),
        "/v2": ("GET", service.server),
        "/v2/health/live": ("GET", service.live),
        "/v2/health/ready": ("GET", service.live),
        "/v2/models/{name}": ("GET", service.metadata),
        "/v2/models/{name}/ready": ("GET", service.model_ready),
        "/v2/models/{name}/versions/{version}": ("GET", service.metadata),
        "/v2/models/{name}/versions/{version}/ready": ("GET", service.model_ready),
        "/health": ("GET", service.live),
        "/info": ("GET", service.info),
        "/metrics": ("GET", service.metrics),
    }
    for path, (method, endpoint) in paths.items():
        routes.append(Route(path, timed(path, endpoint), methods=[method]))
    routes.append(Route("/", timed("/", service.tei), methods=["POST"]))
    routes += page_routes()

    app = Starlette(
        routes=routes,
        lifespan=service.running,
        exception_handlers={
            RequestError: _request_error,
            ClientDisconnect: _client_left,
            HTTPException: _no_such_path,
            Exception: _failed,
        },
    )
    settings = service.settings
    return RequestGuard(app, settings.token, settings.hosts, service.count_status)


async def _request_error(_request: Request, error: Exception) -> Response:
    if not isinstance(error, RequestError):
        raise error
    return Response(error_body(error), error.status, {**error.headers, "content-type": "application/json"})


async def _no_such_path(_request: Request, error: Exception) -> Response:
    """Answer a request for a path, or with a method, that there is not."""
    status = error.status_code if isinstance(error, HTTPException) else 404
    problem = RequestError(status, "There is no such path with this method.", "Validation")
    return Response(error_body(problem), status, {"content-type": "application/json"})


async def _failed(_request: Request, _error: Exception) -> Response:
    """Answer where the service has a fault; the log has the error."""
    problem = RequestError(500, "The service failed; its log says why.", "Backend")
    return Response(error_body(problem), 500, {"content-type": "application/json"})


async def _client_left(_request: Request, _error: Exception) -> Response:
    """Nobody reads this."""
    return Response(status_code=499)
