"""Consistency of Dockerfile and compose.yaml with the project. containers/check.sh, which needs Docker, builds and runs them."""

import fnmatch
import re
import subprocess
import tomllib

import pytest
from packaging.specifiers import SpecifierSet
from ruamel.yaml import YAML

from flows.server.worker import RUNS_END_WITHIN
from tests.conftest import ROOT

DOCKERFILE = (ROOT / "Dockerfile").read_text(encoding="utf-8")
COMPOSE = YAML(typ="safe", pure=True).load(ROOT / "compose.yaml")
SERVICES = COMPOSE["services"]
FILES = ("Dockerfile", "compose.yaml", "containers/gitconfig", "containers/check.sh", "containers/postgres/Dockerfile")


def copied() -> set[str]:
    """Return the paths that the Dockerfile copies from the project."""
    lines = re.findall(r"^COPY (?!--from)(.+) \S+$", DOCKERFILE, flags=re.MULTILINE)
    return {word.rstrip("/") for line in lines for word in line.split()}


def ignored(path: str) -> bool:
    """Return True if .dockerignore excludes the path: the last matching pattern decides."""
    excluded = False
    for line in (ROOT / ".dockerignore").read_text(encoding="utf-8").splitlines():
        pattern = line.removeprefix("!")
        if line and not line.startswith("#") and (fnmatch.fnmatch(path, pattern) or path.startswith(f"{pattern}/")):
            excluded = not line.startswith("!")
    return excluded


def version() -> str:
    return tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["version"]


def test_dockerfile_copies_only_existing_paths_that_are_not_ignored():
    assert {"pyproject.toml", "requirements.txt", "flows", "stages", "tuneline", "prefect.yaml"} <= copied()
    for name in copied() - {"wheel[s]"}:  # wheels are optional files of the user
        assert (ROOT / name).exists(), name
        assert not ignored(name), name


def test_image_contains_every_package():
    packages = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["setuptools"]["packages"]["find"]["include"]
    assert {pattern.rstrip("*") for pattern in packages} <= copied()


@pytest.mark.parametrize("path", [".git", ".venv", "data", "models", ".dvc", "reports", "stages/__pycache__", ".env"])
def test_dockerignore_excludes_large_and_private_paths(path):
    assert ignored(path)


def test_image_python_is_supported_by_the_project():
    python = re.search(r"^ARG BASE_IMAGE=python:(\d+\.\d+)-", DOCKERFILE, flags=re.MULTILINE)[1]
    required = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["requires-python"]
    assert SpecifierSet(required).contains(python)


def test_image_uv_version_equals_that_of_make_setup():
    pinned = re.search(r"^UV_VERSION := (.+)$", (ROOT / "Makefile").read_text(encoding="utf-8"), flags=re.MULTILINE)[1]
    assert f"ARG UV_VERSION={pinned}\n" in DOCKERFILE


def test_image_tag_is_the_version_of_the_project():
    assert f'org.opencontainers.image.version="{version()}"' in DOCKERFILE
    assert {service["image"] for service in SERVICES.values() if "build" in service} == {f"tuneline:{version()}"}


def test_image_user_is_not_root():
    users = re.findall(r"^USER (.+)$", DOCKERFILE, flags=re.MULTILINE)
    assert users == ["${UID}"]
    assert "ARG UID=1000" in DOCKERFILE


@pytest.mark.parametrize("name", SERVICES)
def test_every_service_has_a_health_check_and_restarts(name):
    service = SERVICES[name]
    in_image = "HEALTHCHECK" in DOCKERFILE and "build" in service
    assert in_image or "test" in service["healthcheck"]
    assert service["restart"] in ("unless-stopped", "on-failure")


def test_services_wait_until_their_dependencies_are_ready():
    waits = {name: service.get("depends_on", {}) for name, service in SERVICES.items()}
    assert waits["server"] == {"database": {"condition": "service_healthy"}}
    assert waits["deploy"] == {"server": {"condition": "service_healthy"}}
    assert waits["worker"] == {"deploy": {"condition": "service_completed_successfully"}}


def test_container_files_contain_no_secret_and_no_registry_address():
    for service in SERVICES.values():
        for name, value in service.get("environment", {}).items():
            if re.search(r"PASSWORD|TOKEN|AUTH|KEY|SECRET", name):
                assert value is None or value.startswith("${"), name
    for path in FILES:
        assert not re.search(r"https?://(?!127\.0\.0\.1|server:)", (ROOT / path).read_text(encoding="utf-8")), path


def test_worker_grace_period_suffices_to_save_a_checkpoint():
    assert int(SERVICES["worker"]["stop_grace_period"].removesuffix("s")) > RUNS_END_WITHIN


def test_git_in_the_image_gets_its_token_from_the_environment():
    env = {"PATH": "/usr/bin:/bin", "GIT_CONFIG_SYSTEM": str(ROOT / "containers" / "gitconfig"), "GIT_CONFIG_GLOBAL": "/dev/null"}
    env |= {"GIT_TOKEN": "s3cret", "GIT_TERMINAL_PROMPT": "0"}
    request = "protocol=https\nhost=git.example.com\n\n"
    result = subprocess.run(["git", "credential", "fill"], input=request, env=env, capture_output=True, text=True, check=True, cwd="/")
    assert "password=s3cret\n" in result.stdout
    del env["GIT_TOKEN"]
    result = subprocess.run(["git", "credential", "fill"], input=request, env=env, capture_output=True, text=True, check=False, cwd="/")
    assert result.returncode
    assert "password" not in result.stdout
