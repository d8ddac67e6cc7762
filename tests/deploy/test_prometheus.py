import json
import re
import shutil
import subprocess
import sys

import pytest
import yaml
from deployed import (
    CANARY_PORT,
    ROOT,
    SERVICES,
    VLLM_METRICS,
    metrics,
    named_metrics,
    named_ratios,
    port_of,
    recorded,
    rules,
    site_packages,
)

from gateway.settings import GatewaySettings
from parallelsearch.rollout.types import Kind, StopReason
from policy.metrics import Outcome
from retriever.settings import RetrieverSettings
from servicekit.metrics import SECONDS_BUCKETS

FOLDER = ROOT / "deploy" / "prometheus"
ALERTS = {rule["alert"]: rule for rule in rules() if "alert" in rule}
UNIT_TESTS = sorted((FOLDER / "tests").glob("*.yml"))
needs_promtool = pytest.mark.skipif(shutil.which("promtool") is None, reason="NOT CHECKED: promtool (Debian package prometheus)")


def promtool(*arguments):
    done = subprocess.run(["promtool", *map(str, arguments)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


@needs_promtool
def test_promtool_reads_the_configuration():
    promtool("check", "config", FOLDER / "prometheus.yml")


@needs_promtool
@pytest.mark.parametrize("path", UNIT_TESTS, ids=lambda path: path.stem)
def test_promtool_unit_tests_pass(path):
    promtool("test", "rules", path)


@pytest.mark.parametrize("name", ALERTS)
def test_each_alert_is_tested_quiet_and_firing(name):
    tests = [test for path in UNIT_TESTS for test in yaml.safe_load(path.read_text())["tests"]]
    expected = [rule["exp_alerts"] for test in tests for rule in test.get("alert_rule_test", []) if rule["alertname"] == name]
    assert any(not alerts for alerts in expected)
    assert any(expected)


@pytest.mark.parametrize("name", ALERTS)
def test_each_alert_says_what_to_do(name):
    rule = ALERTS[name]
    assert rule["labels"]["severity"] in {"page", "ticket"}
    page, _, anchor = rule["annotations"]["runbook_url"].partition("#")
    assert anchor == name.lower()
    assert f"\n### {name}\n" in (ROOT / page).read_text()


def test_metrics_of_rules_exist_in_the_code():
    named = set().union(*(named_metrics(rule["expr"]) for rule in rules()))
    assert named - metrics() == set()


def test_metrics_of_the_adapter_exist_in_the_code():
    adapter = yaml.safe_load((FOLDER / "adapter.yml").read_text())["rules"]
    assert set().union(*(named_metrics(rule["seriesQuery"]) for rule in adapter)) - metrics() == set()


def test_the_adapter_makes_one_number_of_all_that_a_pod_shows():
    """Of several series of one pod, such as one for each engine, it would take any."""
    adapter = yaml.safe_load((FOLDER / "adapter.yml").read_text())["rules"]
    assert [rule["metricsQuery"] for rule in adapter if not rule["metricsQuery"].startswith("sum by (<<.GroupBy>>) (")] == []


def test_metrics_of_the_engine_exist_in_its_source():
    source = (site_packages() / "vllm" / "v1" / "metrics" / "loggers.py").read_text()
    for name in VLLM_METRICS:
        # prometheus_client adds the suffix that a kind of metric has.
        assert f'"{re.sub("_(total|bucket)$", "", name)}"' in source, name


FRESH = """
import json, sys
from prometheus_client import REGISTRY
from gateway import metrics
from policy import metrics
from retriever import metrics
from trainer.metrics import show_states
show_states({})
print(json.dumps([REGISTRY.get_sample_value(name, labels) for name, labels in json.load(sys.stdin)]))
"""


def test_what_alerts_see_grow_is_there_before_it_has_grown():
    """A series that begins with its first event was never seen to grow, and an alert on that would be silent about it."""
    series = re.compile(r"(?:increase|delta)\((parallelsearch_\w+)(?:{([^}]*)})?\[")
    grown = [found for rule in ALERTS.values() for found in series.findall(rule["expr"])]
    asked = [(name, dict(re.findall(r'(\w+)="([^"]*)"', labels))) for name, labels in grown]
    assert len(asked) >= 4
    done = subprocess.run([sys.executable, "-c", FRESH], input=json.dumps(asked), capture_output=True, text=True, check=True)
    assert dict(zip(map(str, asked), json.loads(done.stdout), strict=True)) == {str(each): 0.0 for each in asked}


def test_limits_that_settings_move_are_not_written_into_alerts():
    """A number in an alert that is the default of a setting is wrong wherever that setting is another."""
    defaults = {
        field.default: name
        for settings in (GatewaySettings, RetrieverSettings)
        for name, field in settings.model_fields.items()
        if name.startswith("max_")
    }
    numbers = {
        float(number)
        for rule in ALERTS.values()
        for number in re.findall(r"(?<![\w.\[\"])\d+(?:\.\d+)?(?![\w.\]\"])", rule["expr"])
    }
    assert {number: defaults[number] for number in numbers & defaults.keys()} == {}


def test_recorded_ratios_exist_where_they_are_used():
    for rule in ALERTS.values():
        assert named_ratios(rule["expr"]) <= recorded()


def test_label_values_of_rules_exist_in_the_code():
    text = "\n".join(rule["expr"] for rule in rules())
    reasons = {reason for value in re.findall(r'stop_reason[=!~]+"([^"]+)"', text) for reason in value.split("|")}
    assert reasons <= set(StopReason)
    assert set(re.findall(r'kind="(\w+)"', text)) <= set(Kind) | {"all"}
    assert set(re.findall(r'weight_changes_total{outcome="(\w+)"', text)) <= set(Outcome)


def test_the_objective_is_a_bucket():
    bounds = {f'le="{float(bound)}"' for bound in SECONDS_BUCKETS}
    assert set(re.findall(r'answer_seconds_bucket{(le="[\d.]+")}', "\n".join(rule["expr"] for rule in rules()))) <= bounds


def test_every_service_is_scraped_where_it_listens():
    jobs = {job["job_name"]: job for job in yaml.safe_load((FOLDER / "prometheus.yml").read_text())["scrape_configs"]}
    ports = {service: port_of(service) for service in SERVICES} | {"canary": CANARY_PORT}
    for name, port in ports.items():
        discovery = jobs[name]["dns_sd_configs"][0]
        assert (discovery["names"], discovery["port"]) == ([name], port)
