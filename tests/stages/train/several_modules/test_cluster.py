"""The recipes for schedulers in conf/cluster: their syntax, and the objects that they describe.

``test_machines.py`` runs one.
"""

import os
import re
import shutil
import subprocess

import pytest
from ruamel.yaml import YAML

from tests.conftest import ROOT

RECIPES = ROOT / "conf/cluster"
SCHEDULED = {"IMAGE": "registry.example.com/tuneline:1", "CLAIM": "tuneline", "MACHINES": "2", "GPUS": "8"}


def rendered() -> list[dict]:
    """Return the objects of the recipe for Kubernetes, filled as its first lines say."""
    text = (RECIPES / "kubernetes.yaml").read_text(encoding="utf-8")
    (command,) = re.findall(r"^#   (envsubst '.*') <", text, re.MULTILINE)
    assert re.findall(r"(\w+)=", re.findall(r"^#   export (.*)$", text, re.MULTILINE)[0]) == list(SCHEDULED)
    filled = re.sub(r"\$\{(\w+)\}", lambda name: SCHEDULED[name[1]], text)
    if shutil.which("envsubst"):
        words = [command.split()[0], command.split("'")[1]]
        printed = subprocess.run(
            words, input=text, env={**os.environ, **SCHEDULED}, capture_output=True, text=True, check=True
        )
        assert re.sub("^#.*\n", "", printed.stdout, flags=re.MULTILINE) == re.sub(
            "^#.*\n", "", filled, flags=re.MULTILINE
        )
    return list(YAML(typ="safe").load_all(filled))


def test_job_of_kubernetes_tells_each_pod_its_rank_and_the_first_one():
    service, job = rendered()
    spec, pod = job["spec"], job["spec"]["template"]["spec"]
    (container,) = pod["containers"]
    env = {entry["name"]: entry.get("value", entry.get("valueFrom")) for entry in container["env"]}
    assert (job["apiVersion"], job["kind"], spec["completionMode"]) == ("batch/v1", "Job", "Indexed")
    assert spec["completions"] == spec["parallelism"] == int(env["PET_NNODES"]) == 2
    assert env["PET_NODE_RANK"] == {
        "fieldRef": {"fieldPath": "metadata.annotations['batch.kubernetes.io/job-completion-index']"}
    }
    assert env["PET_MASTER_ADDR"] == f"{job['metadata']['name']}-0.{service['metadata']['name']}"
    assert pod["subdomain"] == service["metadata"]["name"]
    assert service["spec"]["clusterIP"] == "None"
    assert service["spec"]["selector"] == {"batch.kubernetes.io/job-name": job["metadata"]["name"]}
    assert str(service["spec"]["ports"][0]["port"]) == env["PET_MASTER_PORT"]
    assert {mount["name"] for mount in container["volumeMounts"]} == {
        volume["name"] for volume in pod["volumes"]
    }
    assert container["resources"]["limits"] == {"nvidia.com/gpu": int(env["PET_NPROC_PER_NODE"])}


@pytest.mark.skipif(shutil.which("kubectl") is None, reason="needs kubectl")
def test_job_of_kubernetes_has_only_fields_of_the_api(tmp_path):
    """kubectl reads the file into the types of the API, which drops unknown fields, and writes it again."""
    _, job = rendered()
    YAML(typ="safe").dump(job, tmp_path / "job.yaml")
    command = [
        "kubectl",
        "set",
        "image",
        "--local",
        "-f",
        str(tmp_path / "job.yaml"),
        "train=other",
        "-o",
        "yaml",
    ]
    printed = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    assert set(keys(job)) <= set(keys(YAML(typ="safe").load(printed)))


def keys(value, path=()):
    """Yield the path of every key of a YAML document."""
    entries = (
        value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    )
    for key, entry in entries:
        yield (*path, key)
        yield from keys(entry, (*path, key))


@pytest.mark.parametrize("name", ["slurm.sh", "slurm-machine.sh"])
def test_scripts_of_slurm_are_valid_and_stop_at_the_first_error(name):
    text = (RECIPES / name).read_text(encoding="utf-8")
    subprocess.run(["bash", "-n", str(RECIPES / name)], check=True)
    directives, _, body = text.partition("set -euo pipefail\n")
    assert body
    options = re.findall(r"^#SBATCH --([\w-]+)=\S+$", directives, re.MULTILINE)
    assert len(options) == text.count("#SBATCH")
    assert name != "slurm.sh" or {"nodes", "ntasks-per-node", "time", "signal"} <= set(options)
