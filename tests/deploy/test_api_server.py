"""Both overlays in a real API server (make test-k8s): it admits and keeps every field of them, as far as it knows their kinds."""

import json
import re
from contextlib import suppress
from copy import deepcopy
from decimal import Decimal

import kubernetes
import pytest
import yaml
from kubernetes.client.exceptions import ApiException
from kubernetes.dynamic import DynamicClient
from kubernetes.dynamic.exceptions import NotFoundError, ResourceNotFoundError
from manifests import OVERLAYS, built, of_kind

from parallelsearch.schemas.training import ResourcesSpec, RunState
from trainer.launchers.interface import Job
from trainer.launchers.kubernetes import KubernetesLauncher
from trainer.launchers.manifests import KubernetesSettings

pytestmark = [pytest.mark.k8s, pytest.mark.filterwarnings("ignore:Unverified HTTPS")]
NAMESPACE = "parallelsearch"
OLDER = {"autoscaling/v2": "autoscaling/v2beta2", "policy/v1": "policy/v1beta1"}
"""The same kind with the same fields, for servers that do not have it by its present name."""
OF_OPERATORS = {"ServiceMonitor"}
POWERS = {"": 0, "m": -3, "Ki": 10, "Mi": 20, "Gi": 30}


class Server:
    """What the tests ask of a server, with the kinds that it says it knows."""

    def __init__(self, kubeconfig):
        self.client = DynamicClient(kubernetes.config.new_client_from_config(str(kubeconfig)))
        self.core = kubernetes.client.CoreV1Api(self.client.client)

    def _kind(self, resource):
        version = resource["apiVersion"]
        try:
            return self.client.resources.get(api_version=version, kind=resource["kind"])
        except ResourceNotFoundError:
            return self.client.resources.get(api_version=OLDER[version], kind=resource["kind"])

    def create(self, resource):
        """What the server keeps of it; a namespace may be there already."""
        kind = self._kind(resource)
        body = resource | {"apiVersion": kind.group_version}
        try:
            return kind.create(body, namespace=NAMESPACE if kind.namespaced else None).to_dict()
        except ApiException as error:
            if resource["kind"] == "Namespace" and error.status == 409:
                return resource
            raise AssertionError(f"{resource['kind']} {resource['metadata']['name']}: {error.body}") from None

    def delete(self, resource):
        kind, name = self._kind(resource), resource["metadata"]["name"]
        with suppress(NotFoundError):
            kind.delete(name, namespace=NAMESPACE)
            # No controller takes part that the finalizers wait for.
            free = {"metadata": {"finalizers": None}}
            kind.patch(free, name=name, namespace=NAMESPACE, content_type="application/merge-patch+json")


@pytest.fixture
def server(kubeconfig):
    server = Server(kubeconfig)
    yield server
    # No controller ends a namespace here: what was made is taken away by hand.
    for resource in built("gpu") + built("local"):
        if resource["kind"] not in OF_OPERATORS | {"Namespace"}:
            server.delete(resource)


def lost(sent, kept, where=""):
    """Where a field that was sent is not what is kept: quantities may be written another way, and defaults are added."""
    match sent:
        case dict():
            return [fault for key, value in sent.items() for fault in lost(value, (kept or {}).get(key), f"{where}.{key}")]
        case list():
            if len(sent) != len(kept or []):
                return [where]
            return [fault for at, value in enumerate(sent) for fault in lost(value, kept[at], f"{where}[{at}]")]
    return [] if sent == kept or amount(sent) == amount(kept) else [f"{where}: {sent!r} became {kept!r}"]


def amount(value):
    found = re.fullmatch(r"([\d.]+)(m|Ki|Mi|Gi|)", str(value))
    if found is None:
        return value
    power = POWERS[found[2]]
    return Decimal(found[1]) * (Decimal(2) ** power if power > 0 else Decimal(10) ** power)


def namespace_first(resources):
    return sorted(resources, key=lambda resource: resource["kind"] != "Namespace")


@pytest.mark.parametrize("overlay", OVERLAYS)
def test_a_server_admits_an_overlay_and_keeps_every_field(server, overlay):
    faults = []
    for resource in namespace_first(built(overlay)):
        if resource["kind"] not in OF_OPERATORS:
            sent = {key: value for key, value in resource.items() if key not in {"apiVersion", "metadata"}}
            faults += [f"{resource['kind']} {resource['metadata']['name']}{fault}" for fault in lost(sent, server.create(resource))]
    assert faults == []


def test_a_server_refuses_what_is_broken(server):
    """So that admitting means something."""
    server.create(of_kind(built("local"), "Namespace")[0])
    deployment = deepcopy(of_kind(built("local"), "Deployment")[0])
    deployment["spec"]["template"]["spec"]["containers"][0]["volumeMounts"].append({"name": "nowhere", "mountPath": "/x"})
    with pytest.raises(AssertionError, match="nowhere"):
        server.create(deployment)


@pytest.fixture
def as_trainer(server, kubeconfig, tmp_path):
    """A kubeconfig with the rights of the trainer's service account, in the namespace as the overlay makes it."""
    for resource in namespace_first(built("local")):
        if resource["kind"] in {"Namespace", "ServiceAccount", "Role", "RoleBinding"}:
            server.create(resource)
    wanted = kubernetes.client.AuthenticationV1TokenRequest(spec={"audiences": ["https://test"], "expirationSeconds": 3600})
    token = server.core.create_namespaced_service_account_token("trainer", NAMESPACE, wanted).status.token
    config = yaml.safe_load(kubeconfig.read_text())
    config["users"][0]["user"] = {"token": token}
    path = tmp_path / "kubeconfig"
    path.write_text(yaml.safe_dump(config))
    return path


def launcher_of_the_overlay(kubeconfig):
    """The launcher as the trainer's ConfigMap sets it up."""
    data = next(each["data"] for each in of_kind(built("local"), "ConfigMap") if each["metadata"]["name"].startswith("trainer"))
    prefix = "TRAINER_KUBERNETES__"
    values = {name.removeprefix(prefix).lower(): text for name, text in data.items() if name.startswith(prefix)}
    values = {name: json.loads(text) if text[0] in "{[" else text for name, text in values.items()}
    return KubernetesLauncher(KubernetesSettings(**values, kubeconfig=kubeconfig))


def test_the_trainer_may_make_read_and_end_its_jobs_and_nothing_else(as_trainer, server, tmp_path):
    launcher = launcher_of_the_overlay(as_trainer)
    job = Job("run-1", ("python3", "-m", "openrlhf.cli.train_ppo_ray"), {}, tmp_path / "run-1", ResourcesSpec())
    handle = launcher.start(job)
    assert launcher.status(handle, job).state is RunState.QUEUED
    warning = {"metadata": {"name": "run-1.1"}, "involvedObject": {"name": "run-1", "namespace": NAMESPACE}, "type": "Warning"}
    server.core.create_namespaced_event(NAMESPACE, {**warning, "reason": "FailedCreate", "message": "exceeded quota"})
    assert "exceeded quota" in launcher.status(handle, job).detail
    launcher.cancel(handle, job)
    assert launcher.status(handle, job).state is RunState.FAILED

    mine = kubernetes.config.new_client_from_config(str(as_trainer))
    for refused in (
        lambda: kubernetes.client.CoreV1Api(mine).list_namespaced_secret(NAMESPACE),
        lambda: kubernetes.client.CoreV1Api(mine).delete_namespaced_pod("policy-0", NAMESPACE),
        lambda: kubernetes.client.BatchV1Api(mine).list_namespaced_job("default"),
        lambda: kubernetes.client.AppsV1Api(mine).list_namespaced_deployment(NAMESPACE),
    ):
        with pytest.raises(ApiException) as error:
            refused()
        assert error.value.status == 403
