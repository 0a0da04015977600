"""A service needs a few packages, and what these need: those of the image (Dockerfile, target ``serve``)."""

import json
import os
import re
import shutil
import subprocess
import sys
import time
import tomllib
from pathlib import Path

import httpx
import pytest
from packaging.requirements import Requirement

from tests.conftest import ROOT
from tests.exported_pipeline import published_pipeline
from tuneline.serve.text_classifier import TextClassifier

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
GROUP = PROJECT["dependency-groups"]["serve"]
LIST = "import json, importlib.metadata as m; print(json.dumps([each.name for each in m.distributions()]))"
ANY_HOST = "0.0.0.0"  # noqa: S104 - as in the image
TOKEN = "of-this-test-0123456789"  # noqa: S105 - of this test


def test_packages_of_the_group_are_direct_dependencies():
    """Their lowest versions stand there, and the lock pins them."""
    assert {Requirement(line).name for line in PROJECT["project"]["dependencies"]} >= set(GROUP)


@pytest.fixture(scope="module")
def environment(tmp_path_factory) -> Path:
    """Return an environment with the group and this project, installed as the Dockerfile does."""
    uv = shutil.which("uv", path=str(Path(sys.executable).parent)) or shutil.which("uv")
    if uv is None:
        pytest.skip("uv is not installed: `make setup` does it")
    folder = tmp_path_factory.mktemp("environment") / "venv"
    subprocess.run([uv, "venv", "--quiet", "--python", sys.executable, folder], check=True)
    install = [uv, "pip", "install", "--quiet", "--python", folder / "bin/python"]
    group = [*install, "--constraints", "requirements.txt", "--group", "serve"]
    # from uv's cache, which has them since the set-up; else from the registry
    if subprocess.run([*group, "--offline"], check=False, capture_output=True, cwd=ROOT).returncode:
        done = subprocess.run(group, check=False, capture_output=True, text=True, cwd=ROOT)
        if done.returncode:
            pytest.skip(f"neither uv's cache nor a registry has the packages: {done.stderr}")

    # this project, as the image has it: without stages and flows
    source = tmp_path_factory.mktemp("source")
    shutil.copytree(ROOT / "tuneline", source / "tuneline", ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("pyproject.toml", "setup.py", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, source)
    build = "from setuptools import build_meta; build_meta.build_wheel('wheel')"
    subprocess.run([sys.executable, "-c", build], cwd=source, capture_output=True, check=True)
    (wheel,) = (source / "wheel").glob("*.whl")
    subprocess.run([*install, "--no-deps", "--offline", wheel], check=True)
    return folder


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_service_answers_with_its_packages_alone(environment, tmp_path_factory, tmp_path):
    installed = json.loads(subprocess.check_output([environment / "bin/python", "-c", LIST], cwd=tmp_path))
    assert not {"dvc", "httpx", "pandas", "prefect", "pyarrow", "ray", "torch", "transformers"} & set(
        installed
    )

    folder = published_pipeline(tmp_path_factory, "classification") / "models/onnx"
    command = [environment / "bin/tuneline", "serve", "--model", folder, "--host", ANY_HOST, "--port", "0"]
    bare = {"PATH": os.defpath}
    done = subprocess.run(command, cwd=tmp_path, env=bare, capture_output=True, text=True, check=False)
    assert (done.returncode, "TUNELINE_SERVICE_TOKEN" in done.stderr) == (1, True), done.stderr

    output = tmp_path / "output"
    with output.open("w") as log:
        env = {**bare, "TUNELINE_SERVICE_TOKEN": TOKEN}
        process = subprocess.Popen(command, cwd=tmp_path, env=env, stdout=log, stderr=log)
    try:
        until = time.monotonic() + 60
        while not (said := re.search(r"http://0\.0\.0\.0:(\d+)", output.read_text())):
            assert process.poll() is None, output.read_text()
            assert time.monotonic() < until
            time.sleep(0.1)
        row = ["parcel missing", "the parcel never came"]
        headers = {"authorization": f"Bearer {TOKEN}"}
        url = f"http://127.0.0.1:{said[1]}/predict"
        answer = httpx.post(url, json={"inputs": [row]}, headers=headers, trust_env=False, timeout=30)
        (expected,) = TextClassifier.load(folder, threads=1).predict([tuple(row)])
        assert answer.json()[0][0]["label"] == expected.label
        assert answer.headers["tuneline-version"] == expected.version
    finally:
        process.terminate()
        assert process.wait(60) == 0
