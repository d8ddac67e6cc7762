"""What manifests name exists in the code: settings, ports, paths, images, metrics, commands."""

import importlib
import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest
import yaml
from deployed import CANARY_PORT, IMAGES, ROOT, SERVICES, is_variable, metrics, named_metrics, port_of
from manifests import OVERLAYS, base, containers, named, of_kind, pod, resources, workloads

from gateway.app import create_app
from gateway.settings import GatewaySettings
from parallelsearch.schemas.training import ResourcesSpec
from trainer.launchers.interface import Job

everywhere = pytest.mark.parametrize("where", ["base", *OVERLAYS])
PORTS = {"canary": CANARY_PORT, "redis": 6379}
SECRET_KEYS = {"ADMIN_TOKEN", "PARALLELSEARCH_API_KEY", "WANDB_API_KEY", "POLICY_API_KEY", "MILVUS_TOKEN", "RETRIEVER_WEB_KEY"}


def port(name):
    return PORTS.get(name) or port_of(name)


def plain(image):
    """Without the registry and the tag that an overlay adds to an image of ours."""
    own = re.search(r"(parallelsearch/[a-z-]+)(:\w+)?$", image)
    return own[1] if own else image


@everywhere
def test_images_are_known(where):
    for workload in workloads(resources(where)):
        for container in containers(workload):
            assert plain(container["image"]) in IMAGES


@pytest.mark.parametrize("where", OVERLAYS)
def test_images_of_ours_come_from_the_node_or_a_registry_that_is_named(where):
    """A plain name is one of Docker Hub, where anybody may publish it."""
    for workload in workloads(resources(where)):
        for container in containers(workload):
            registry, _, rest = container["image"].partition("/")
            if "parallelsearch/" in container["image"]:
                assert container.get("imagePullPolicy") == "IfNotPresent" or ("." in registry and ":" in rest), container["image"]


@everywhere
def test_variables_are_settings(where):
    found = resources(where)
    for settings in of_kind(found, "ConfigMap"):
        assert {name for name in settings["data"] if not is_variable(name)} == set(), settings["metadata"]["name"]
    for workload in workloads(found):
        for container in containers(workload):
            assert {variable["name"] for variable in container.get("env", []) if not is_variable(variable["name"])} == set()


def test_services_listen_beyond_loopback_and_the_gateway_has_keys():
    for name in SERVICES:
        assert named(base(), "ConfigMap", name)["data"][f"{name.upper()}_HOST"] == "0.0.0.0"
    mounts = pod(named(base(), "Deployment", "gateway"))["containers"][0]["volumeMounts"]
    keys = named(base(), "ConfigMap", "gateway")["data"]["GATEWAY_API_KEYS_FILE"]
    assert any(keys.startswith(f"{mount['mountPath']}/") for mount in mounts if mount["name"] == "keys")


@everywhere
def test_ports_are_those_of_the_settings(where):
    found = resources(where)
    for workload in of_kind(found, "Deployment", "StatefulSet"):
        name = workload["metadata"]["name"]
        exposed = pod(workload)["containers"][0]["ports"][0]
        assert exposed["containerPort"] == port(name)
        assert exposed["name"] == ("redis" if name == "redis" else "http")
    for service in of_kind(found, "Service"):
        name = service["spec"]["selector"]["app.kubernetes.io/name"]
        assert service["spec"]["ports"][0]["port"] == port(name)


@everywhere
def test_probes_ask_for_paths_that_are_served(where):
    for workload in of_kind(resources(where), "Deployment", "StatefulSet"):
        container, name = pod(workload)["containers"][0], workload["metadata"]["name"]
        probes = [container[probe] for probe in ("startupProbe", "readinessProbe", "livenessProbe") if probe in container]
        paths = {probe["httpGet"]["path"] for probe in probes if "httpGet" in probe}
        assert paths <= ({"/metrics"} if name == "canary" else {"/healthz", "/readyz"})
        assert all(probe["httpGet"]["port"] == "http" for probe in probes if "httpGet" in probe)
        if name in SERVICES:
            assert container["livenessProbe"]["httpGet"]["path"] == "/healthz"


def test_probes_say_why():
    for path in ROOT.glob("k8s/base/*/*.yaml"):
        lines = path.read_text().splitlines()
        for at, line in enumerate(lines):
            if re.match(r"\s+startupProbe:", line):
                assert lines[at - 1].lstrip().startswith("#"), f"{path}:{at}"


def test_urls_lead_to_services():
    services = {service["metadata"]["name"]: service["spec"]["ports"][0]["port"] for service in of_kind(base(), "Service")}
    texts = [value for settings in of_kind(base(), "ConfigMap") for value in settings["data"].values()]
    texts += pod(named(base(), "Deployment", "canary"))["containers"][0]["args"]
    found = [match.groups() for text in texts if (match := re.search(r"\w+://([a-z-]+):(\d+)", text))]
    assert len(found) >= 9
    assert all(services[host] == int(number) for host, number in found)
    ways = named(base(), "Ingress", "gateway")["spec"]["rules"][0]["http"]["paths"]
    assert all(way["backend"]["service"] == {"name": "gateway", "port": {"name": "http"}} for way in ways)


def test_the_ingress_lets_in_all_routes_but_the_one_that_names_the_keys():
    ways = named(base(), "Ingress", "gateway")["spec"]["rules"][0]["http"]["paths"]

    def is_let_in(route):
        return any(
            route == way["path"] or (way["pathType"] == "Prefix" and route.startswith(f"{way['path'].rstrip('/')}/"))
            for way in ways
        )

    routes = {route.path for route in create_app(GatewaySettings()).routes}
    assert {route for route in routes if not is_let_in(route)} == {"/metrics"}


def test_secrets_hold_what_is_read():
    wanted = {
        variable["valueFrom"]["secretKeyRef"]["key"]
        for workload in workloads(base())
        for container in containers(workload)
        for variable in container.get("env", [])
        if "valueFrom" in variable
    }
    assert wanted == SECRET_KEYS


@pytest.mark.parametrize("name", SERVICES)
def test_every_secret_among_the_settings_may_stand_in_the_secret(name):
    """A ConfigMap would else be the only place for it, which everybody who may look around can read."""
    settings = getattr(importlib.import_module(f"{name}.settings"), f"{name.capitalize()}Settings")
    secret = {
        field.validation_alias or f"{name}_{key}".upper()
        for key, field in settings.model_fields.items()
        if "SecretStr" in repr(field.annotation)
    }
    workload = next(each for each in workloads(base()) if each["metadata"]["name"] == name)
    told = {
        variable["name"] for variable in pod(workload)["containers"][0]["env"] if "secretKeyRef" in variable.get("valueFrom", {})
    }
    assert secret
    assert secret - told == set()


def test_autoscalers_read_metrics_that_the_adapter_makes_of_ours():
    adapter = yaml.safe_load((ROOT / "deploy" / "prometheus" / "adapter.yml").read_text())["rules"]
    made = {rule["name"]["as"]: named_metrics(rule["seriesQuery"]) for rule in adapter}
    read = {
        metric["pods"]["metric"]["name"]
        for scaler in of_kind(base(), "HorizontalPodAutoscaler")
        for metric in scaler["spec"]["metrics"]
        if metric["type"] == "Pods"
    }
    assert read == made.keys()
    assert set().union(*made.values()) <= metrics()


@pytest.mark.parametrize("where", ["gpu"])
def test_the_monitor_reads_every_service(where):
    monitor = named(resources(where), "ServiceMonitor", "parallelsearch")["spec"]
    services = of_kind(resources(where), "Service")
    chosen = {
        service["metadata"]["labels"]["app.kubernetes.io/name"]
        for service in services
        if service["metadata"]["labels"].get("app.kubernetes.io/name") in monitor["selector"]["matchExpressions"][0]["values"]
    }
    assert chosen == {*SERVICES, "canary"}
    assert (monitor["jobLabel"], monitor["endpoints"][0]["path"]) == ("app.kubernetes.io/name", "/metrics")


def test_the_index_is_built_where_it_is_fetched_from():
    build = pod(named(base(), "Job", "index-build"))["containers"][0]
    corpus = build["args"][0].partition("site-packages/")[2]
    assert (ROOT / "packages" / "parallelsearch" / "src" / corpus).is_file()
    retriever = pod(named(base(), "StatefulSet", "retriever"))
    target = build["args"][1].removeprefix("--out=")
    fetch = retriever["initContainers"][0]["args"][0]
    assert f"{target}/manifest.json" in fetch
    assert f"mv /index/next {named(base(), 'ConfigMap', 'retriever')['data']['RETRIEVER_INDEX']}" in fetch


def test_an_index_that_is_published_while_it_is_fetched_leaves_a_whole_one(tmp_path):
    """The init container's own script, with a cp that a build overtakes: it copies the old version and the new manifest."""
    script = pod(named(base(), "StatefulSet", "retriever"))["initContainers"][0]["args"][0]
    for folder in ("indexes/current/old", "index", "bin"):
        (tmp_path / folder).mkdir(parents=True)
    manifest = tmp_path / "indexes" / "current" / "manifest.json"
    manifest.write_text("old")
    overtaken = tmp_path / "bin" / "cp"
    overtaken.write_text(f'#!/bin/sh\n[ "$1" != -R ] || echo new > {manifest}\nexec {shutil.which("cp")} "$@"\n')
    overtaken.chmod(0o755)
    environ = os.environ | {"PATH": f"{tmp_path / 'bin'}:{os.environ['PATH']}"}
    here = re.sub(r"(?<=[ ])/(?=index)", f"{tmp_path}/", script)
    subprocess.run(["sh", "-eu", "-c", here], env=environ, check=True)
    fetched = tmp_path / "index" / "current"
    assert (fetched / (fetched / "manifest.json").read_text()).is_dir()
    assert {path.name for path in fetched.parent.iterdir()} == {"current"}


def test_runs_are_where_trainer_and_policy_look_for_them():
    trainer, policy = (named(base(), "ConfigMap", name)["data"] for name in ("trainer", "policy"))
    assert trainer["TRAINER_RUNS_DIR"] == policy["POLICY_CHECKPOINT_ROOTS"] == "/runs"


def test_the_ray_job_is_as_the_trainer_makes_it():
    manifests = pytest.importorskip("trainer.launchers.manifests", reason="NOT CHECKED: the trainer has no Kubernetes launcher yet")
    example = yaml.safe_load((ROOT / "k8s" / "overlays" / "gpu" / "rayjob.example.yaml").read_text())
    job = Job("my-run", ("python3", "--help"), {}, Path("/runs/my-run"), ResourcesSpec(nodes=2, gpus_per_node=8))
    settings = manifests.KubernetesSettings(image="openrlhf", claim="runs", mount=Path("/runs"), namespace="parallelsearch")
    made = manifests.ray_job_manifest(job, settings)
    assert example["metadata"] == made["metadata"]
    assert example["spec"].keys() == made["spec"].keys()
    submitters = [manifest["spec"]["submitterPodTemplate"]["spec"] for manifest in (example, made)]
    theirs, ours = (spec["containers"][0] for spec in submitters)
    assert submitters[0]["securityContext"] == submitters[1]["securityContext"]
    assert {key: theirs[key] for key in theirs if key != "image"} == {key: ours[key] for key in ours if key != "image"}
    assert example["spec"]["rayClusterSpec"].keys() == made["spec"]["rayClusterSpec"].keys()
    assert example["spec"]["rayClusterSpec"]["rayVersion"] == made["spec"]["rayClusterSpec"]["rayVersion"]
