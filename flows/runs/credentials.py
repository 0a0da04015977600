"""Secrets of a worker: the environment of programs that do not need them."""

import re
from collections.abc import Mapping

SECRETS_OF_THE_WORKER = frozenset({"GIT_TOKEN", "GIT_USERNAME", "TUNELINE_ORIGIN", "TUNELINE_DVC_REMOTE", "TUNELINE_NOTIFY"})
"""Variables that only the worker, git and DVC need: an address may contain a password."""
# Hydra resolves ${oc.env:NAME} from the environment into params.yaml, which is committed.
_WITHOUT_SECRETS = re.compile(
    r"PATH|HOME|LANG|LANGUAGE|LC_\w+|TMPDIR|TZ|VIRTUAL_ENV|LD_LIBRARY_PATH|PYTHON\w+|TUNELINE_RUN|DVC_SITE_CACHE_DIR|DVC_NO_ANALYTICS|DO_NOT_TRACK"
)


def for_stages(env: Mapping[str, str]) -> dict[str, str]:
    """Return the environment of a stage: without the credentials for git. Those for data and models (HF_TOKEN, AWS_...) stay."""
    return {name: value for name, value in env.items() if name not in SECRETS_OF_THE_WORKER}


def for_composition(env: Mapping[str, str]) -> dict[str, str]:
    """Return the environment of the composition of ``params.yaml``: only variables that are known to contain no secret."""
    return {name: value for name, value in env.items() if _WITHOUT_SECRETS.fullmatch(name)}
