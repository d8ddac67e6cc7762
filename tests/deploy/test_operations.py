"""What docs/operations.md names exists."""

import os
import re
import subprocess

import yaml
from deployed import ROOT, is_variable, rules
from manifests import base, of_kind

TEXT = (ROOT / "docs" / "operations.md").read_text()
BUILD_SETTINGS = {"PIP_INDEX_URL", "PIP_EXTRA_INDEX_URL", "PIP_TRUSTED_HOST", "PULL_IMAGES"}


def test_variables_are_settings():
    named = set(re.findall(r"\b([A-Z][A-Z0-9]*_[A-Z0-9_]+)\b", TEXT))
    assert len(named) > 20
    assert {name for name in named - BUILD_SETTINGS if not is_variable(name) and name != "_SHUTDOWN_GRACE_S"} == set()


def test_every_alert_has_its_runbook_and_no_runbook_is_left_over():
    alerts = [rule["alert"] for rule in rules() if "alert" in rule]
    section = TEXT[TEXT.index("## Alerts") : TEXT.index("## Scaling")]
    assert re.findall(r"^### (\w+)$", section, re.M) == alerts


def test_the_rules_reach_the_operator_as_they_are(tmp_path):
    """What the page says to type, with a kubectl that keeps what it is given."""
    (shown,) = re.findall(r"```sh\n(for file in deploy/prometheus/rules.*?)```", TEXT, re.S)
    kubectl = tmp_path / "kubectl"
    kubectl.write_text('#!/bin/sh\n[ "$*" = "apply -f -" ] && { cat; echo ---; } >> "$KEPT"\n')
    kubectl.chmod(0o755)
    environ = os.environ | {"PATH": f"{tmp_path}:{os.environ['PATH']}", "KEPT": str(tmp_path / "kept")}
    subprocess.run(["bash", "-euc", shown], cwd=ROOT, env=environ, check=True)
    made = [each for each in yaml.safe_load_all((tmp_path / "kept").read_text()) if each]
    assert {each["kind"] for each in made} == {"PrometheusRule"}
    assert len({each["metadata"]["name"] for each in made}) == len(made)
    assert [rule for each in made for group in each["spec"]["groups"] for rule in group["rules"]] == list(rules())


def test_what_an_operator_has_to_replace_is_named():
    texts = "\n".join(path.read_text() for path in (ROOT / "k8s").rglob("*.yaml"))
    examples = set(re.findall(r"[\w.]*example\.org|gateway-tls", texts))
    assert len(examples) == 3
    assert {name for name in examples if f"`{name}`" not in TEXT} == set()


def test_panels_exist():
    titles = set(re.findall(r'"title": "([^"]+)"', "".join(path.read_text() for path in ROOT.glob("deploy/grafana/dashboards/*"))))
    named = {panel for board, panel in re.findall(r"\| \*(\w+)\*, ([\w' ]+) \|", TEXT)}
    assert named
    assert named <= titles


def test_files_exist():
    for place in re.findall(r"`((?:deploy|services|requirements|k8s)/[\w./-]+)`", TEXT):
        assert (ROOT / place).exists() or "<" in place, place


def test_volumes_and_published_ports_are_those_of_compose():
    compose = yaml.safe_load((ROOT / "docker-compose.yml").read_text())
    for volume in compose["volumes"]:
        assert f"`{volume}`" in TEXT
    published = {
        port.split(":")[1] + ":" + port.split(":")[2] for each in compose["services"].values() for port in each.get("ports", [])
    }
    for port in re.findall(r"^\| (\d+) \|", TEXT, re.M):
        assert any(port in each for each in published)


def test_kubectl_is_told_the_namespace_before_anything_in_it_is_named():
    told = TEXT.index("kubectl config set-context --current --namespace=" + base_namespace())
    before = [command for command in re.findall(r"kubectl [^`\n]+", TEXT[:told]) if not command.startswith("kubectl apply -k")]
    assert [command for command in before if f" -n {base_namespace()} " not in command] == []


def base_namespace():
    return yaml.safe_load((ROOT / "k8s" / "base" / "kustomization.yaml").read_text())["namespace"]


def test_an_upgrade_takes_away_what_kubernetes_lets_nobody_change():
    """Pods of a job that is there are fixed: `kubectl apply` of a new image is refused."""
    upgrade = TEXT[TEXT.index("**Upgrade.**") : TEXT.index("**Roll back.**")]
    jobs = [job["metadata"]["name"] for job in of_kind(base(), "Job")]
    assert jobs
    for name in jobs:
        assert f"`kubectl delete job {name}`" in upgrade
