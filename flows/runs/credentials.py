"""Secrets of a worker: what is printed without them, and the environment of programs that do not need them."""

import re
from collections.abc import Mapping

SECRETS_OF_THE_WORKER = frozenset({"GIT_TOKEN", "GIT_USERNAME", "TUNELINE_ORIGIN", "TUNELINE_DVC_REMOTE", "TUNELINE_NOTIFY"})
"""Variables that only the worker, git and DVC need: an address may contain a password."""
# A password may contain an unencoded slash, and git prints it all the same: after a colon, all up to the last @ is taken for one.
_USERINFO = re.compile(r"(?<=://)(?:[^\s/'\"]*:[^\s'\"]*|[^\s/'\"]*)@")
# Hydra resolves ${oc.env:NAME} from the environment into params.yaml, which is committed.
_WITHOUT_SECRETS = re.compile(
    r"PATH|HOME|LANG|LANGUAGE|LC_\w+|TMPDIR|TZ|VIRTUAL_ENV|LD_LIBRARY_PATH|PYTHON\w+|TUNELINE_RUN|DVC_SITE_CACHE_DIR|DVC_NO_ANALYTICS|DO_NOT_TRACK"
)


def redacted(text: str) -> str:
    """Return a text with ``***`` in place of user names and passwords in addresses: ``https://***@host/path``."""
    return _USERINFO.sub("***@", text)


def for_stages(env: Mapping[str, str]) -> dict[str, str]:
    """Return the environment of a stage: without the credentials for git. Those for data and models (HF_TOKEN, AWS_...) stay."""
    return {name: value for name, value in env.items() if name not in SECRETS_OF_THE_WORKER}


def for_composition(env: Mapping[str, str]) -> dict[str, str]:
    """Return the environment of the composition of ``params.yaml``: only variables that are known to contain no secret."""
    return {name: value for name, value in env.items() if _WITHOUT_SECRETS.fullmatch(name)}
