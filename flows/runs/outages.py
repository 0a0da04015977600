"""Tells errors of git that pass, because a network or host is away, from those that stay."""

import re

_PASSES = re.compile(r"Internal Server Error|returned error: (408|429|5\d\d)")
_STAYS = re.compile(
    r"\[(remote )?rejected\]"
    r"|returned error: 4\d\d|Authentication failed|could not read (Username|Password)|Permission denied|Host key verification failed"
    r"|does not appear to be a git repository|[Rr]epository .*not (found|exported)|couldn't find remote ref|dubious ownership"
    r"|does not match any|certificate|remote helper|No space left|does not support|not a git repository"
)


def may_pass(message: str) -> bool:
    """Return True if a git command that talks to a remote may succeed later, as far as its message tells.

    Errors of authentication, refused refs and wrong addresses stay. What is unknown counts as an outage.
    """
    return bool(_PASSES.search(message) or not _STAYS.search(message))
