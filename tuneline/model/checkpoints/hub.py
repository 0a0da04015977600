"""The client of the Hugging Face hub: its errors as messages for the user.

Flows import it: no transformers.
"""

import contextlib
import errno
from collections.abc import Iterator

from tuneline.core.runtime.errors import ParamsError, StageError

_OFFLINE = (
    "Without network, set the revision to a commit that was fetched before, by this pipeline or `hf download"
    " NAME --revision COMMIT`, or copy the model to models/source/ and name that folder; `dvc pull base` gets"
    " what another machine has fetched."
)


@contextlib.contextmanager
def hub_errors_explained(key: str, name: str, revision: str | None) -> Iterator[None]:
    """Replace the errors of the hub's client by one that names the parameter and says what to do."""
    from huggingface_hub import errors
    from huggingface_hub.utils import httpx  # type: ignore[attr-defined]  # whichever the client is built on

    try:
        yield
    except (OSError, ValueError, RuntimeError, errors.XetDownloadError, httpx.HTTPError) as error:
        kind, problem, hint = _explain(error, name, revision)
        raise kind(f"{key}: {problem}", hint) from None


def _explain(error: Exception, name: str, revision: str | None) -> tuple[type[StageError], str, str]:
    from huggingface_hub import constants, errors

    if getattr(error, "errno", None) in (errno.ENOSPC, errno.EDQUOT) or "no space left" in str(error).lower():
        hint = f"Free some, or set HF_HOME to a larger disk; now it is {constants.HF_HOME}."
        return StageError, f"{name} does not fit on the disk.", hint
    explanations = {
        errors.RevisionNotFoundError: (
            f"{name} has no branch, tag or commit {revision!r}.",
            "See 'Files and versions' on its page on the hub.",
        ),
        errors.GatedRepoError: (
            f"access to {name} must be granted first (it is gated).",
            "Ask for it on its page on the hub, then log in with `hf auth login`, or set HF_TOKEN.",
        ),
        errors.RepositoryNotFoundError: (
            f"the hub has no model {name!r}, or it is private.",
            (
                "Check the name on its page; for a private one log in with `hf auth login`. A folder is named"
                " models/source/NAME."
            ),
        ),
        errors.HFValidationError: (
            f"{name!r} is not the name of a model on the hub.",
            "It looks like 'google-bert/bert-base-uncased'.",
        ),
        errors.OfflineModeIsEnabled: (
            f"the hub cannot be asked for {name}, because HF_HUB_OFFLINE is set.",
            f"Unset it. {_OFFLINE}",
        ),
    }
    for kind, explanation in explanations.items():
        if isinstance(error, kind):
            return ParamsError, *explanation
    first = next(iter(str(error).strip().splitlines()), "") or type(error).__name__
    problem = f"{name} cannot be fetched from {constants.ENDPOINT}: {first}"
    return StageError, problem, f"What was downloaded is kept: try again. {_OFFLINE}"
