"""Prefect flows that schedule the pipeline.

They run its stages through ``dvc``: no import of ``stages`` or torch.
"""

import logging
import os

import tuneline as tuneline  # turns telemetry off, before a flow imports Prefect
from tuneline.core.runtime.terminal import visible


class VisibleRecord(logging.LogRecord):
    """A record of the log.

    Messages contain names of files, labels and refs, and are printed by workers and by ``prefect``.
    """

    def getMessage(self) -> str:  # noqa: N802 - its name in logging
        """Return the message with control characters as codes."""
        return visible(super().getMessage())


logging.setLogRecordFactory(VisibleRecord)

LOOPBACK = ("localhost", "127.0.0.1", "::1")
"""Addresses of this machine, at which no proxy is asked: the server of ``make schedule`` has one."""


def bypass_proxy(*hosts: str) -> None:
    """Let this process and its children talk to hosts directly, whatever proxy the environment names."""
    # Programs read either spelling.
    for name in ("no_proxy", "NO_PROXY"):
        direct = []
        for host in os.environ.get(name, "").split(","):
            if host.strip():
                direct.append(host.strip())
        direct += hosts
        os.environ[name] = ",".join(dict.fromkeys(direct))


bypass_proxy(*LOOPBACK)
