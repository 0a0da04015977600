"""The core that stages, flows and the command line (``tuneline.cli``) share.

A program imports ``TextClassifier`` from here. The import of the package alone loads no library.

It turns the telemetry of libraries off, before any of them is imported: they read these variables at import.
And it names the user for those that ask for a name.
"""

import getpass
import os

TYPE_CHECKING = False
"""True for type checkers: the package imports no module that it can do without."""

if TYPE_CHECKING:
    from tuneline.serve.text_classifier import TextClassifier as TextClassifier

NO_TELEMETRY = {
    "DO_NOT_TRACK": "1",  # Prefect's client, huggingface-hub
    "DVC_NO_ANALYTICS": "1",
    "GX_ANALYTICS_ENABLED": "false",
    "HF_HUB_DISABLE_TELEMETRY": "1",
    "HF_UPDATE_DOWNLOAD_COUNTS": "false",  # datasets: a request that counts each load
    "ITERATIVE_DO_NOT_TRACK": "1",  # gto
    "ORT_DISABLE_TELEMETRY": (
        "1"
    ),  # ONNX Runtime: its import writes a device id, and soon after it looks up where to send it
    "PREFECT_SERVER_ANALYTICS_ENABLED": "false",
    "RAY_USAGE_STATS_ENABLED": "0",
}
"""Variables that turn telemetry off.

One that is set already keeps its value: telemetry is the user's to turn on.
"""

for _name, _value in NO_TELEMETRY.items():
    os.environ.setdefault(_name, _value)

USER_HAS_NAME = True
"""False if neither the environment nor the system has a name for this user, as in many containers.

DVC and torch end in an error without one, so ``USER`` is set to its number, and ``HOME`` if it is not set.
The programs that this process starts have both.
"""
try:
    getpass.getuser()
except (KeyError, OSError):  # OSError from Python 3.13 on
    USER_HAS_NAME = False
    os.environ["USER"] = str(os.getuid())
    os.environ.setdefault("HOME", "/")  # as container runtimes do

__all__ = ["TextClassifier"]


def __getattr__(name: str) -> object:
    """Import ``TextClassifier`` when a program first asks for it.

    A command that predicts nothing needs neither ONNX Runtime nor NumPy.
    """
    if name != "TextClassifier":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    import importlib

    return importlib.import_module(f"{__name__}.serve.text_classifier").TextClassifier
