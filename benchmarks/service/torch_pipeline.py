"""``transformers.pipeline`` of the model before its export, behind FastAPI."""

from typing import Any

import uvicorn
from fastapi import FastAPI
from transformers import pipeline

from benchmarks.service.dialect import row_of, server_parser


def main() -> None:
    """Serve until the process is ended; the precision is that of the model."""
    options = server_parser().parse_args()
    classifier = pipeline("text-classification", model=str(options.model), device="cpu", top_k=None)
    app = FastAPI()

    @app.get("/health")
    def health() -> dict[str, str]:
        return {}

    @app.post("/predict")
    def predict(request: dict[str, Any]) -> list[dict[str, Any]]:
        row = row_of(request)
        texts = {"text": row[0]}
        if len(row) > 1:
            texts["text_pair"] = row[1]
        # Most probable class first
        classes: list[dict[str, Any]] = classifier(texts, truncation=True)
        return classes

    uvicorn.run(app, port=options.port, log_level="warning")


if __name__ == "__main__":
    main()
