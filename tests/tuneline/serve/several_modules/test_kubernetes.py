"""``conf/cluster/kubernetes-serve.yaml`` describes the image, the paths and the times of the service."""

import re

from ruamel.yaml import YAML

from tests.conftest import ROOT
from tuneline.cli.serve import TOKEN
from tuneline.serve.server import GRACE

RECIPE = (ROOT / "conf/cluster/kubernetes-serve.yaml").read_text(encoding="utf-8")
FILLED = {"IMAGE": "registry.example.com/tickets:1", "REPLICAS": "3"}
DOCKERFILE = (ROOT / "Dockerfile").read_text(encoding="utf-8")


def described() -> tuple[dict, dict]:
    """Return the service and the deployment of the recipe, filled as its first lines say."""
    assert re.findall(r"(\w+)=", re.findall(r"^#   export (.*)$", RECIPE, re.MULTILINE)[0]) == list(FILLED)
    assert re.findall(r"^#   envsubst '(.*)' <", RECIPE, re.MULTILINE) == ["$IMAGE $REPLICAS"]
    filled = re.sub(r"\$\{(\w+)\}", lambda name: FILLED[name[1]], RECIPE)
    service, deployment = YAML(typ="safe").load_all(filled)
    return service, deployment


def test_pod_has_the_token_from_a_secret_and_no_rights():
    _, deployment = described()
    pod = deployment["spec"]["template"]["spec"]
    (container,) = pod["containers"]
    (variable,) = container["env"]
    assert variable["name"] == TOKEN
    assert set(variable["valueFrom"]) == {"secretKeyRef"}
    assert f"secret generic {variable['valueFrom']['secretKeyRef']['name']} " in RECIPE
    assert pod["securityContext"]["runAsNonRoot"]
    assert f"ARG UID={pod['securityContext']['runAsUser']}\n" in DOCKERFILE
    assert container["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }


def test_pod_has_time_for_what_it_accepted():
    _, deployment = described()
    pod = deployment["spec"]["template"]["spec"]
    (container,) = pod["containers"]
    (_, before) = container["lifecycle"]["preStop"]["exec"]["command"]
    assert pod["terminationGracePeriodSeconds"] > int(before) + GRACE
