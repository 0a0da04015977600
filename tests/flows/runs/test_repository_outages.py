import pytest

from flows.runs.repository import is_outage

AWAY = [
    "fatal: unable to connect to 127.0.0.1:\n127.0.0.1[0: 127.0.0.1]: errno=Connection refused",
    "fatal: unable to access 'https://git.example.com/a.git/': Could not resolve host: git.example.com",
    "fatal: unable to access 'https://git.example.com/a.git/': The requested URL returned error: 503",
    (
        "fatal: unable to access 'https://git.example.com/a.git/': Operation too slow. Less than 1 bytes/sec"
        " transferred the last 60 seconds"
    ),
    (
        "ssh: connect to host git.example.com port 22: Connection timed out\nfatal: Could not read from"
        " remote repository.\n\nPlease make sure you have the correct access rights\nand the repository"
        " exists."
    ),
    "fatal: the remote end hung up unexpectedly",
    "remote: Internal Server Error\n ! [remote rejected] main -> main (Internal Server Error)",
]
STAYS = [
    "fatal: Authentication failed for 'https://git.example.com/a.git/'",
    "fatal: could not read Username for 'https://git.example.com': terminal prompts disabled",
    "fatal: unable to access 'https://git.example.com/a.git/': The requested URL returned error: 403",
    "git@git.example.com: Permission denied (publickey).\nfatal: Could not read from remote repository.",
    " ! [remote rejected] main -> main (pre-receive hook declined)",
    " ! [rejected] main -> main (fetch first)",
    "fatal: '/nowhere/origin.git' does not appear to be a git repository",
    "fatal: couldn't find remote ref refs/heads/main",
    "remote: Repository not found.\nfatal: repository 'https://github.com/a/b.git/' not found",
    "fatal: remote error: access denied or repository not exported: /a.git",
]


@pytest.mark.parametrize("message", AWAY)
def test_outage_is_outage(message):
    assert is_outage(message)


@pytest.mark.parametrize("message", STAYS)
def test_refusal_stays(message):
    assert not is_outage(message)
