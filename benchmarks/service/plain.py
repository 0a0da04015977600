"""A server that anybody writes first: FastAPI, one session with all cores, one row at a time."""

from typing import Any

import uvicorn
from fastapi import FastAPI

from benchmarks.service.dialect import answers, row_of, server_parser
from tuneline.serve.text_classifier import TextClassifier


def main() -> None:
    """Serve until the process is ended."""
    options = server_parser().parse_args()
    model = TextClassifier.load(options.model, options.precision)
    app = FastAPI()

    # Without async: FastAPI runs these in its pool of threads

    @app.get("/health")
    def health() -> dict[str, str]:
        return {}

    @app.post("/predict")
    def predict(request: dict[str, Any]) -> list[dict[str, Any]]:
        (classes,) = answers(model, [row_of(request)])
        return classes

    uvicorn.run(app, port=options.port, log_level="warning")


if __name__ == "__main__":
    main()
