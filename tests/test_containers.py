"""Dockerfile and compose.yaml hold together with the project. That they work is seen by containers/check.sh, which needs Docker."""

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
    """What the Dockerfile takes from the folder that it stands in."""
    lines = re.findall(r"^COPY (?!--from)(.+) \S+$", DOCKERFILE, flags=re.MULTILINE)
    return {word.rstrip("/") for line in lines for word in line.split()}


def ignored(path: str) -> bool:
    """As .dockerignore says: the last pattern that fits decides."""
    fits = False
    for line in (ROOT / ".dockerignore").read_text(encoding="utf-8").splitlines():
        pattern = line.removeprefix("!")
        if line and not line.startswith("#") and (fnmatch.fnmatch(path, pattern) or path.startswith(f"{pattern}/")):
            fits = not line.startswith("!")
    return fits


def version() -> str:
    return tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["version"]


def test_everything_that_is_copied_is_there_and_not_ignored():
    assert {"pyproject.toml", "requirements.txt", "flows", "stages", "tuneline", "prefect.yaml"} <= copied()
    for name in copied() - {"wheel[s]"}:  # those are the user's own
        assert (ROOT / name).exists(), name
        assert not ignored(name), name


def test_every_package_is_in_the_image():
    wanted = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["setuptools"]["packages"]["find"]["include"]
    assert {pattern.rstrip("*") for pattern in wanted} <= copied()


@pytest.mark.parametrize("path", [".git", ".venv", "data", "models", ".dvc", "reports", "stages/__pycache__", ".env"])
def test_what_is_large_or_private_does_not_go_to_the_builder(path):
    assert ignored(path)


def test_python_is_one_that_the_project_supports():
    python = re.search(r"^ARG BASE=python:(\d+\.\d+)-", DOCKERFILE, flags=re.MULTILINE)[1]
    wanted = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["requires-python"]
    assert SpecifierSet(wanted).contains(python)


def test_uv_is_the_one_that_make_setup_uses():
    pinned = re.search(r"^UV_VERSION := (.+)$", (ROOT / "Makefile").read_text(encoding="utf-8"), flags=re.MULTILINE)[1]
    assert f"ARG UV_VERSION={pinned}\n" in DOCKERFILE


def test_the_image_is_named_after_the_project_s_version():
    assert f'org.opencontainers.image.version="{version()}"' in DOCKERFILE
    assert {service["image"] for service in SERVICES.values() if "build" in service} == {f"tuneline:{version()}"}


def test_the_image_runs_as_somebody_who_is_not_root():
    users = re.findall(r"^USER (.+)$", DOCKERFILE, flags=re.MULTILINE)
    assert users == ["${UID}"]
    assert "ARG UID=1000" in DOCKERFILE


@pytest.mark.parametrize("name", SERVICES)
def test_every_service_says_whether_it_is_well_and_comes_back(name):
    service = SERVICES[name]
    in_image = "HEALTHCHECK" in DOCKERFILE and "build" in service
    assert in_image or "test" in service["healthcheck"]
    assert service["restart"] in ("unless-stopped", "on-failure")


def test_each_service_waits_until_what_it_needs_is_ready():
    waits = {name: service.get("depends_on", {}) for name, service in SERVICES.items()}
    assert waits["server"] == {"database": {"condition": "service_healthy"}}
    assert waits["deploy"] == {"server": {"condition": "service_healthy"}}
    assert waits["worker"] == {"deploy": {"condition": "service_completed_successfully"}}


def test_no_secret_and_no_address_of_a_registry_is_written_down():
    for service in SERVICES.values():
        for name, value in service.get("environment", {}).items():
            if re.search(r"PASSWORD|TOKEN|AUTH|KEY|SECRET", name):
                assert value is None or value.startswith("${"), name
    for path in FILES:
        assert not re.search(r"https?://(?!127\.0\.0\.1|server:)", (ROOT / path).read_text(encoding="utf-8")), path


def test_a_worker_has_time_to_save_a_checkpoint_before_it_is_killed():
    assert int(SERVICES["worker"]["stop_grace_period"].removesuffix("s")) > RUNS_END_WITHIN


def test_git_gets_its_token_from_the_environment():
    env = {"PATH": "/usr/bin:/bin", "GIT_CONFIG_SYSTEM": str(ROOT / "containers" / "gitconfig"), "GIT_CONFIG_GLOBAL": "/dev/null"}
    env |= {"GIT_TOKEN": "s3cret", "GIT_TERMINAL_PROMPT": "0"}
    asked = "protocol=https\nhost=git.example.com\n\n"
    told = subprocess.run(["git", "credential", "fill"], input=asked, env=env, capture_output=True, text=True, check=True, cwd="/").stdout
    assert "password=s3cret\n" in told
    del env["GIT_TOKEN"]
    told = subprocess.run(["git", "credential", "fill"], input=asked, env=env, capture_output=True, text=True, check=False, cwd="/")
    assert told.returncode
    assert "password" not in told.stdout
