"""The Kubernetes manifests: the base as its files say it, the overlays as kustomize makes them."""

import shutil
import subprocess
import tempfile
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import yaml
from deployed import ROOT

FOLDER = ROOT / "k8s"
OVERLAYS = ("local", "gpu")
SECRETS = {"secrets.env": "ADMIN_TOKEN=a\nPARALLELSEARCH_API_KEY=b\n", "api-keys.json": "[]\n"}

Resource = dict[str, Any]


@cache
def base() -> tuple[Resource, ...]:
    """Every resource of the base; ConfigMaps as their generators would make them, without the hash."""
    found: list[Resource] = []
    for path in sorted((FOLDER / "base").rglob("*.yaml")):
        documents = [document for document in yaml.safe_load_all(path.read_text()) if document]
        if path.name != "kustomization.yaml":
            found += documents
            continue
        for generator in documents[0].get("configMapGenerator", []):
            data = dict(literal.split("=", 1) for literal in generator["literals"])
            found.append({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": generator["name"]}, "data": data})
    return tuple(found)


def kustomize(overlay: str, secrets: dict[str, str]) -> subprocess.CompletedProcess[str]:
    """Builds an overlay in a copy of the folder, with these secrets beside it. Skips where there is no kustomize."""
    command = ["kustomize", "build"] if shutil.which("kustomize") else ["kubectl", "kustomize"]
    if shutil.which(command[0]) is None:
        pytest.skip("NOT CHECKED: overlays need kubectl or kustomize")
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder) / "k8s"
        shutil.copytree(FOLDER, copy, ignore=shutil.ignore_patterns(*SECRETS))
        for name, text in secrets.items():
            (copy / "overlays" / overlay / name).write_text(text)
        return subprocess.run([*command, str(copy / "overlays" / overlay)], capture_output=True, text=True, check=False)


@cache
def built(overlay: str) -> tuple[Resource, ...]:
    done = kustomize(overlay, SECRETS)
    assert done.returncode == 0, done.stderr
    return tuple(yaml.safe_load_all(done.stdout))


def resources(where: str) -> tuple[Resource, ...]:
    return base() if where == "base" else built(where)


def of_kind(found: tuple[Resource, ...], *kinds: str) -> list[Resource]:
    return [resource for resource in found if resource["kind"] in kinds]


def named(found: tuple[Resource, ...], kind: str, name: str) -> Resource:
    return next(resource for resource in of_kind(found, kind) if resource["metadata"]["name"] == name)


def workloads(found: tuple[Resource, ...]) -> list[Resource]:
    return of_kind(found, "Deployment", "StatefulSet", "Job")


def pod(workload: Resource) -> dict[str, Any]:
    return workload["spec"]["template"]["spec"]


def containers(workload: Resource) -> list[dict[str, Any]]:
    return [*pod(workload).get("initContainers", []), *pod(workload)["containers"]]


VOLUMES = {"configMap", "csi", "downwardAPI", "emptyDir", "ephemeral", "persistentVolumeClaim", "projected", "secret"}


def unrestricted(spec: dict[str, Any]) -> list[str]:
    """What the Pod Security level `restricted` would refuse of a pod, as the standard lists it; empty for a pod that it admits."""
    found = [field for field in ("hostNetwork", "hostPID", "hostIPC") if spec.get(field)]
    found += [f"volume {volume['name']}" for volume in spec.get("volumes", []) if not VOLUMES & volume.keys()]
    for container in [*spec.get("initContainers", []), *spec["containers"]]:
        # What a container does not say itself, it has from its pod.
        security = {**spec.get("securityContext", {}), **container.get("securityContext", {})}
        asked = {
            "runAsNonRoot": security.get("runAsNonRoot") is True,
            "runAsUser": security.get("runAsUser") != 0,
            "seccompProfile": security.get("seccompProfile", {}).get("type") in {"RuntimeDefault", "Localhost"},
            "privileged": not security.get("privileged"),
            "allowPrivilegeEscalation": security.get("allowPrivilegeEscalation") is False,
            "capabilities": security.get("capabilities", {}).get("drop") == ["ALL"]
            and set(security["capabilities"].get("add", [])) <= {"NET_BIND_SERVICE"},
            "hostPort": not any(port.get("hostPort") for port in container.get("ports", [])),
        }
        found += [f"{container['name']}: {field}" for field, met in asked.items() if not met]
    return found
