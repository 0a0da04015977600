"""``tuneline serve``: a model behind a port, for programs of any language."""

import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from tuneline.cli.predict import Certainty, Risk
from tuneline.core.runtime.errors import StageError
from tuneline.judge.decisions import CERTAINTY

if TYPE_CHECKING:
    from tuneline.serve.models import ModelSource

TOKEN = "TUNELINE_SERVICE_TOKEN"  # noqa: S105 - the name of the variable
"""Variable with the token that clients send."""
MODEL_HELP = "A folder of exported models, or one .onnx file"
PRODUCTION_HELP = (
    "Serve what is in production, and follow promotions and rollbacks: of a checkout (.), or of a repository"
    " at an address"
)


def command(  # noqa: PLR0917 - typer calls it by name
    model: Annotated[Path, typer.Option("--model", "-m", help=MODEL_HELP)] = Path("models/onnx"),
    production: Annotated[
        str | None, typer.Option("--production", metavar="REPOSITORY", help=PRODUCTION_HELP)
    ] = None,
    precision: Annotated[
        Literal["fp32", "int8"] | None, typer.Option(help="Model of the folder; default: fp32")
    ] = None,
    host: Annotated[
        str, typer.Option(help="Address to listen on. Others than this machine's own need a token")
    ] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535, help="Its port; 0 for a free one")] = 8000,
    name: Annotated[str, typer.Option(help="Name of the model, in /info and on the page")] = "tuneline",
    allow_host: Annotated[
        list[str] | None,
        typer.Option("--allow-host", metavar="NAME", help="Name by which it may be asked; repeatable"),
    ] = None,
    threads: Annotated[
        int, typer.Option(min=1, help="Threads of a forward pass: more answer few clients sooner")
    ] = 1,
    risk: Risk = None,
    certainty: Certainty = CERTAINTY,
) -> None:
    """Answer requests with the exported model: /predict, /v1/predictions; a page at /.

    Requests for the schedule of flows are another server's: `make schedule`.
    """
    from tuneline.serve.application import ServiceSettings
    from tuneline.serve.models import FolderSource, RegistrySource
    from tuneline.serve.server import serve

    token = os.environ.get(TOKEN)
    if token is not None and len(token) < 16:
        raise StageError(f"{TOKEN} has {len(token)} characters, which can be guessed.", "Use 16 or more.")
    if token is None and not is_loopback(host):
        raise StageError(
            f"--host {host}: other machines can reach this address, and there is no token.",
            f"export {TOKEN}=$(openssl rand -hex 32), or listen on 127.0.0.1.",
        )

    required = None
    if risk is not None:
        # SciPy and Arrow, which a service without promises does not need
        from tuneline.serve.model_choice import RequiredRisk

        required = RequiredRisk(risk, certainty)
    source: ModelSource = FolderSource(model, precision, required, threads)
    if production is not None:
        source = RegistrySource(production, precision, required, threads)
    settings = ServiceSettings(
        source=source,
        name=name,
        token=token,
        hosts=frozenset(each.lower() for each in allow_host or ()),
    )
    serve(settings, host, port)


def is_loopback(host: str) -> bool:
    """Return True if only this machine can reach an address."""
    import ipaddress

    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False
