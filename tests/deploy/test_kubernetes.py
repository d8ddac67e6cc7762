"""Manifests against Kubernetes: schemas of three minors, references, what is closed, and how pods come and go."""

import kubernetes_validate
import pytest
from manifests import OVERLAYS, SECRETS, base, built, containers, kustomize, named, of_kind, pod, resources, workloads

from gateway.settings import GatewaySettings

MINORS = ("1.33", "1.35", "1.37")
OF_OPERATORS = {"ServiceMonitor"}
"""Custom resources, whose schemas Kubernetes does not have."""
everywhere = pytest.mark.parametrize("where", ["base", *OVERLAYS])


@pytest.mark.parametrize(("where", "minor"), [("base", MINORS[1]), *((where, minor) for where in OVERLAYS for minor in MINORS)])
def test_resources_keep_to_the_schema(where, minor):
    for resource in resources(where):
        if resource["kind"] not in OF_OPERATORS:
            kubernetes_validate.validate(resource, minor, strict=True)


@everywhere
def test_pods_are_closed(where):
    for workload in workloads(resources(where)):
        name, spec = workload["metadata"]["name"], pod(workload)
        # Kubernetes would set RETRIEVER_PORT=tcp://… and the like, which are names of our settings.
        assert spec["enableServiceLinks"] is False, name
        assert spec["automountServiceAccountToken"] is (name == "trainer"), name
        assert spec["serviceAccountName"] == name
        assert spec["securityContext"]["runAsNonRoot"] is True
        assert spec["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
        for container in containers(workload):
            security = container["securityContext"]
            assert security["readOnlyRootFilesystem"] is True
            assert security["allowPrivilegeEscalation"] is False
            assert security["capabilities"] == {"drop": ["ALL"]}
            assert container["resources"]["requests"].keys() >= {"cpu", "memory"}
            assert "memory" in container["resources"]["limits"]


@everywhere
def test_what_pods_refer_to_is_there(where):
    found = resources(where)
    there = {(resource["kind"], resource["metadata"]["name"]) for resource in found}
    for workload in workloads(found):
        spec = pod(workload)
        wanted = {("ServiceAccount", spec["serviceAccountName"])}
        claims = {claim["metadata"]["name"] for claim in workload["spec"].get("volumeClaimTemplates", [])}
        for volume in spec.get("volumes", []):
            if "persistentVolumeClaim" in volume:
                wanted.add(("PersistentVolumeClaim", volume["persistentVolumeClaim"]["claimName"]))
            if "secret" in volume:
                wanted.add(("Secret", volume["secret"]["secretName"]))
        for container in containers(workload):
            wanted |= {("ConfigMap", source["configMapRef"]["name"]) for source in container.get("envFrom", [])}
            sources = [variable["valueFrom"]["secretKeyRef"] for variable in container.get("env", []) if "valueFrom" in variable]
            wanted |= {("Secret", source["name"]) for source in sources}
            volumes = {volume["name"] for volume in spec.get("volumes", [])} | claims
            assert {mount["name"] for mount in container["volumeMounts"]} <= volumes, container["name"]
        if where == "base":  # secrets come with an overlay
            wanted = {(kind, name) for kind, name in wanted if kind != "Secret"}
        assert wanted - there == set(), workload["metadata"]["name"]


@everywhere
def test_selectors_choose_the_pods_that_they_mean(where):
    found = resources(where)
    pods = [workload["spec"]["template"]["metadata"]["labels"] for workload in workloads(found)]
    for resource in of_kind(found, "Service", "PodDisruptionBudget"):
        selector = resource["spec"]["selector"].get("matchLabels", resource["spec"]["selector"])
        assert sum(selector.items() <= labels.items() for labels in pods) == 1, resource["metadata"]["name"]
    for workload in workloads(found):
        for spread in pod(workload).get("topologySpreadConstraints", []):
            assert spread["labelSelector"]["matchLabels"].items() <= workload["spec"]["template"]["metadata"]["labels"].items()


@everywhere
def test_the_network_is_closed_by_default(where):
    found = resources(where)
    closed = named(found, "NetworkPolicy", "closed")["spec"]
    assert closed == {"podSelector": {}, "policyTypes": ["Ingress", "Egress"]}
    names = {policy["metadata"]["name"] for policy in of_kind(found, "NetworkPolicy")}
    assert {workload["metadata"]["name"] for workload in of_kind(found, "Deployment", "StatefulSet")} <= names


def test_whoever_may_be_called_is_allowed_to_be_called():
    """For each way out of a pod there is the way in, on the same port."""
    policies = {policy["metadata"]["name"]: policy["spec"] for policy in of_kind(base(), "NetworkPolicy")}
    ports = {service["metadata"]["name"]: service["spec"]["ports"][0] for service in of_kind(base(), "Service")}
    for caller in ("gateway", "trainer", "canary"):
        for way in policies[caller].get("egress", []):
            for peer in way.get("to", []):
                called = peer["podSelector"]["matchLabels"]["app.kubernetes.io/name"]
                assert way["ports"] == [{"port": ports[called]["port"]}]
                entry = policies[called]["ingress"][0]
                assert {"podSelector": {"matchLabels": {"app.kubernetes.io/name": caller}}} in entry["from"], (caller, called)
                assert entry["ports"] == [{"port": ports[called]["targetPort"]}]


def test_the_operator_of_ray_may_ask_how_a_run_is():
    """It dials the head's dashboard from a namespace of its own; where that is closed, a RayJob never comes to an end."""
    ways = named(base(), "NetworkPolicy", "training-runs")["spec"]["ingress"]
    operator = {"namespaceSelector": {}, "podSelector": {"matchLabels": {"app.kubernetes.io/component": "kuberay-operator"}}}
    assert {"from": [operator], "ports": [{"port": 8265}]} in ways


@pytest.mark.parametrize("name", ["gateway", "policy", "retriever"])
def test_replicas_are_replaced_without_a_gap(name):
    workload = next(each for each in workloads(base()) if each["metadata"]["name"] == name)
    container, grace_s = pod(workload)["containers"][0], pod(workload)["terminationGracePeriodSeconds"]
    if workload["kind"] == "Deployment":
        assert workload["spec"]["strategy"]["rollingUpdate"] == {"maxSurge": 1, "maxUnavailable": 0}
    pause_s = int(container["lifecycle"]["preStop"]["exec"]["command"][1])
    settings = named(base(), "ConfigMap", name)["data"]
    finish_s = float(settings.get(f"{name.upper()}_SHUTDOWN_GRACE_S", 20))
    assert grace_s > pause_s + finish_s
    assert {"startupProbe", "readinessProbe", "livenessProbe"} <= container.keys()
    budget = named(base(), "PodDisruptionBudget", name)["spec"]
    assert budget["maxUnavailable"] == 1
    assert named(base(), "HorizontalPodAutoscaler", name)["spec"]["minReplicas"] >= 2


@everywhere
def test_what_is_scaled_by_load_is_not_put_back_by_the_next_apply(where):
    """A number of replicas in a manifest goes over what the autoscaler has made of it, each time that it is applied."""
    found = resources(where)
    scaled = {scaler["spec"]["scaleTargetRef"]["name"] for scaler in of_kind(found, "HorizontalPodAutoscaler")}
    for workload in of_kind(found, "Deployment", "StatefulSet"):
        name = workload["metadata"]["name"]
        assert ("replicas" in workload["spec"]) == (name not in scaled), name


def test_the_gateway_may_finish_the_longest_answer_by_default():
    from parallelsearch.schemas.answers import AnswerRequest

    grace_s = float(named(base(), "ConfigMap", "gateway")["data"]["GATEWAY_SHUTDOWN_GRACE_S"])
    assert grace_s > AnswerRequest.model_fields["deadline_s"].default


def test_the_trainer_may_do_what_its_jobs_need_and_no_more():
    rules = named(base(), "Role", "trainer")["rules"]
    allowed = {(resource, verb) for rule in rules for resource in rule["resources"] for verb in rule["verbs"]}
    assert allowed >= {(kind, verb) for kind in ("jobs", "rayjobs") for verb in ("create", "get", "delete")}
    assert not {"*", "secrets", "pods/exec"} & {resource for resource, _ in allowed}
    assert of_kind(base(), "ClusterRole", "ClusterRoleBinding") == []


def test_local_is_one_of_each_on_one_node():
    found = built("local")
    assert all(workload["spec"]["replicas"] == 1 for workload in of_kind(found, "Deployment", "StatefulSet"))
    assert of_kind(found, "HorizontalPodAutoscaler", "PodDisruptionBudget") == []
    assert all(claim["spec"]["accessModes"] == ["ReadWriteOnce"] for claim in of_kind(found, "PersistentVolumeClaim"))


def test_gpu_asks_for_gpus():
    found = built("gpu")
    for kind, name in (("Deployment", "policy"), ("StatefulSet", "retriever")):
        container = pod(named(found, kind, name))["containers"][0]
        assert f"/parallelsearch/{name}-gpu:" in container["image"]
        assert container["resources"]["limits"]["nvidia.com/gpu"] == 1


@pytest.mark.parametrize("missing", SECRETS)
def test_a_missing_secret_is_named(missing):
    done = kustomize("local", {name: text for name, text in SECRETS.items() if name != missing})
    assert done.returncode != 0
    assert missing in done.stderr


def test_uploads_are_taken_only_where_there_is_one_retriever_and_a_claim_to_keep_them():
    """Replicas have disks of their own, and would each know the documents that reached them."""
    for where in ("base", *OVERLAYS):
        found = resources(where)
        retriever = named(found, "StatefulSet", "retriever")
        folder = named_by_prefix(found, "ConfigMap", "retriever")["data"].get("RETRIEVER_INDEXES")
        assert (folder is not None) == (where == "local"), where
        if folder is not None:
            assert retriever["spec"]["replicas"] == 1
            assert not [scaler for scaler in of_kind(found, "HorizontalPodAutoscaler") if scaler["metadata"]["name"] == "retriever"]
            (mount,) = [mount for mount in pod(retriever)["containers"][0]["volumeMounts"] if mount["mountPath"] == folder]
            assert not mount.get("readOnly")
            assert mount["name"] in {claim["metadata"]["name"] for claim in retriever["spec"]["volumeClaimTemplates"]}


def test_the_ingress_lets_documents_through():
    limit = named(base(), "Ingress", "gateway")["metadata"]["annotations"]["nginx.ingress.kubernetes.io/proxy-body-size"]
    assert int(limit.removesuffix("m")) * 1024**2 >= GatewaySettings.model_fields["max_upload_bytes"].default


def named_by_prefix(found, kind, name):
    """ConfigMaps of an overlay carry a hash behind their name."""
    return next(resource for resource in of_kind(found, kind) if resource["metadata"]["name"].startswith(name))
