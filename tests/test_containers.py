"""Consistency of Dockerfile and compose.yaml with the project. containers/check.sh, which needs Docker,
builds and runs them."""

import fnmatch
import re
import subprocess

import pytest
from ruamel.yaml import YAML

from tests.conftest import ROOT

DOCKERFILE = (ROOT / "Dockerfile").read_text(encoding="utf-8")
COMPOSE = YAML(typ="safe", pure=True).load(ROOT / "compose.yaml")
SERVICES = COMPOSE["services"]
FILES = (
    "Dockerfile",
    "compose.yaml",
    "containers/gitconfig",
    "containers/nginx.conf",
    "containers/git-credential-token",
    "containers/check.sh",
    "containers/postgres/Dockerfile",
)


def copied() -> set[str]:
    """Return the paths that the Dockerfile copies from the project."""
    lines = re.findall(r"^COPY (?!--from)(.+) \S+$", DOCKERFILE, flags=re.MULTILINE)
    return {word.rstrip("/") for line in lines for word in line.split()}


def ignored(path: str) -> bool:
    """Return True if .dockerignore excludes the path: the last matching pattern decides."""
    excluded = False
    for line in (ROOT / ".dockerignore").read_text(encoding="utf-8").splitlines():
        pattern = line.removeprefix("!")
        if (
            line
            and not line.startswith("#")
            and (fnmatch.fnmatch(path, pattern) or path.startswith(f"{pattern}/"))
        ):
            excluded = not line.startswith("!")
    return excluded


def stage(name: str) -> str:
    """Return the lines of a stage of the Dockerfile."""
    (_, start) = DOCKERFILE.split(f" AS {name}\n")
    return re.split(r"^FROM ", start, maxsplit=1, flags=re.MULTILINE)[0]


def test_dockerfile_copies_only_existing_paths_that_are_not_ignored():
    assert {"pyproject.toml", "requirements.txt", "flows", "stages", "prefect.yaml"} <= copied()
    for name in copied() - {"wheel[s]", "${MODEL}"}:  # wheels are optional files of the user, models are outs
        assert (ROOT / name).exists(), name
        assert not ignored(name), name


@pytest.mark.parametrize(
    "path", [".git", ".venv", "data", "models", ".dvc", "reports", "stages/__pycache__", ".env"]
)
def test_dockerignore_excludes_large_and_private_paths(path):
    assert ignored(path)


@pytest.mark.parametrize("target", ["serve", "run"])
def test_image_user_is_not_root(target):
    users = re.findall(r"^USER (.+)$", stage(target), flags=re.MULTILINE)
    assert users == ["${UID}"]
    assert "ARG UID=1000" in stage(target)


def test_container_files_contain_no_secret_and_no_registry_address():
    for service in SERVICES.values():
        for name, value in service.get("environment", {}).items():
            if re.search(r"PASSWORD|TOKEN|AUTH|KEY|SECRET", name):
                assert value is None or value.startswith("${"), name
    for path in FILES:
        assert not re.search(
            r"https?://(?!127\.0\.0\.1|server:|model:)\w", (ROOT / path).read_text(encoding="utf-8")
        ), path


@pytest.fixture
def ask_git(tmp_path):
    """Ask git for a password as in the image; return ``None`` if it has none."""
    (tmp_path / "git-credential-token").symlink_to(ROOT / "containers" / "git-credential-token")

    def ask(url: str, variables: dict[str, str]) -> str | None:
        env = {
            "PATH": f"{tmp_path}:/usr/bin:/bin",
            "GIT_CONFIG_GLOBAL": "/dev/null",
            "GIT_TERMINAL_PROMPT": "0",
            **variables,
        }
        env["GIT_CONFIG_SYSTEM"] = str(ROOT / "containers" / "gitconfig")
        command = ["git", "credential", "fill"]
        done = subprocess.run(
            command, input=f"url={url}\n\n", env=env, capture_output=True, text=True, check=False, cwd="/"
        )
        found = re.search("^password=(.*)$", done.stdout, flags=re.MULTILINE)
        assert (done.returncode == 0) == bool(found), done.stderr
        return found[1] if found else None

    return ask


ORIGIN = "https://git.example.com:8443/team/classifier.git"
TOKEN = {"GIT_TOKEN": "t0ken", "TUNELINE_ORIGIN": ORIGIN}


def test_git_in_the_image_gets_its_token_from_the_environment(ask_git):
    assert ask_git(ORIGIN, TOKEN) == "t0ken"
    assert ask_git(ORIGIN, {**TOKEN, "TUNELINE_ORIGIN": "https://me@git.example.com:8443"}) == "t0ken"
    assert ask_git(ORIGIN, {"TUNELINE_ORIGIN": ORIGIN}) is None
    assert ask_git("https://data.example/x", {**TOKEN, "GIT_TOKEN_HOST": "data.example"}) == "t0ken"


@pytest.mark.parametrize(
    "url",
    [
        "http://git.example.com:8443/team/classifier.git",
        "https://evil.example/team/classifier.git",
        "https://evil.example/git.example.com:8443",
        "https://git.example.com@evil.example/",
        "https://git.example.com:8443.evil.example/",
    ],
)
def test_git_in_the_image_gives_its_token_to_one_host_over_https(ask_git, url):
    assert ask_git(url, TOKEN) is None


def test_server_in_the_containers_has_a_password_and_no_default_for_it():
    passwords = {SERVICES["server"]["environment"]["PREFECT_SERVER_API_AUTH_STRING"]}
    passwords |= {
        SERVICES[name]["environment"]["PREFECT_API_AUTH_STRING"] for name in ("deploy", "restart", "worker")
    }
    assert len(passwords) == 1
    assert passwords.pop().startswith("${PREFECT_API_AUTH_STRING:?")
    (port,) = SERVICES["server"]["ports"]
    assert port.startswith("127.0.0.1:"), "other machines reach it by the proxy"
