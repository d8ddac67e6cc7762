import json
import re
import shutil
import subprocess
import sys

import jsonschema
import pytest
import yaml
from deployed import ROOT, metrics, named_metrics, named_ratios, recorded, rules

FOLDER = ROOT / "deploy" / "grafana"
DASHBOARDS = {path.stem: json.loads(path.read_text()) for path in sorted((FOLDER / "dashboards").glob("*.json"))}
PANELS = [(name, panel) for name, board in DASHBOARDS.items() for panel in board["panels"] if panel["type"] != "row"]
QUERIES = [(name, panel["title"], target["expr"]) for name, panel in PANELS for target in panel["targets"]]
PLACE = {
    "type": "object",
    "required": ["x", "y", "w", "h"],
    "properties": {
        "x": {"minimum": 0, "maximum": 23},
        "y": {"minimum": 0},
        "w": {"minimum": 1, "maximum": 24},
        "h": {"minimum": 1},
    },
}
TARGET = {
    "type": "object",
    "required": ["refId", "datasource", "expr", "legendFormat"],
    "properties": {
        "refId": {"pattern": "^[A-Z]$"},
        "datasource": {"const": {"type": "prometheus", "uid": "prometheus"}},
        "expr": {"type": "string", "minLength": 1},
        "legendFormat": {"type": "string", "minLength": 1},
    },
}
PANEL = {
    "type": "object",
    "required": ["id", "type", "title", "gridPos"],
    "properties": {"id": {"type": "integer"}, "type": {"enum": ["row", "timeseries"]}, "gridPos": PLACE},
    "if": {"properties": {"type": {"const": "timeseries"}}},
    "then": {
        "required": ["description", "datasource", "fieldConfig", "options", "targets"],
        "properties": {"targets": {"type": "array", "minItems": 1, "items": TARGET}, "description": {"minLength": 1}},
    },
}
DASHBOARD = {
    "type": "object",
    "required": ["uid", "title", "schemaVersion", "panels", "time", "refresh", "templating", "annotations"],
    "properties": {
        "uid": {"pattern": "^[a-z-]{1,40}$"},
        "title": {"type": "string"},
        "schemaVersion": {"type": "integer", "minimum": 36},
        "panels": {"type": "array", "items": PANEL, "minItems": 1},
    },
}
"""What Grafana's documentation of the dashboard JSON model asks for, for the parts that we use."""


def test_the_dashboards_are_those_of_the_generator():
    program = "import build, json, sys; sys.stdout.write(json.dumps(build.files()))"
    done = subprocess.run([sys.executable, "-c", program], cwd=FOLDER, capture_output=True, text=True, check=True)
    for name, text in json.loads(done.stdout).items():
        assert (FOLDER / "dashboards" / name).read_text() == text, "run: .venv/bin/python deploy/grafana/build.py"


def test_there_are_the_four():
    assert [board["title"] for board in DASHBOARDS.values()] == ["Answers", "Policy", "Retriever", "Training"]


@pytest.mark.parametrize("name", DASHBOARDS)
def test_dashboards_keep_to_the_schema(name):
    jsonschema.validate(DASHBOARDS[name], DASHBOARD, cls=jsonschema.Draft202012Validator)


@pytest.mark.parametrize("name", DASHBOARDS)
def test_panels_are_told_apart_and_do_not_overlap(name):
    panels = DASHBOARDS[name]["panels"]
    assert len({panel["id"] for panel in panels}) == len(panels)
    taken = [(x, y) for panel in panels for x in _span(panel, "x", "w") for y in _span(panel, "y", "h")]
    assert len(set(taken)) == len(taken)


def _span(panel, start, length):
    return range(panel["gridPos"][start], panel["gridPos"][start] + panel["gridPos"][length])


def test_metrics_of_panels_exist_in_the_code():
    assert {name for _, _, query in QUERIES for name in named_metrics(query)} - metrics() == set()


def test_recorded_ratios_of_panels_are_recorded():
    used = {name for _, _, query in QUERIES for name in named_ratios(query)}
    assert used
    assert used <= recorded()


def test_every_metric_but_few_is_on_a_dashboard():
    """What nobody looks at should not be exported."""
    shown = {name for _, _, query in QUERIES for name in named_metrics(query)}
    shown |= {name for rule in rules() for name in named_metrics(rule["expr"])}
    stems = {re.sub("_(bucket|sum|count)$", "", name) for name in metrics()}
    left = stems - {re.sub("_(bucket|sum|count)$", "", name) for name in shown}
    assert left == {
        "parallelsearch_answer_cache_total",  # off by default
        "parallelsearch_refused_total",
        "parallelsearch_http_request_seconds",  # the services' own histograms say more
        "parallelsearch_canary_answers_total",
        "parallelsearch_canary_questions",
        "parallelsearch_canary_rounds_total",
    }


@pytest.mark.skipif(shutil.which("promtool") is None, reason="NOT CHECKED: promtool (Debian package prometheus)")
def test_promtool_parses_every_query(tmp_path):
    parsed = [
        {"record": f"panel:{at}", "expr": query.replace("$__rate_interval", "5m")} for at, (_, _, query) in enumerate(QUERIES)
    ]
    file = tmp_path / "panels.yml"
    file.write_text(yaml.safe_dump({"groups": [{"name": "panels", "rules": parsed}]}))
    done = subprocess.run(["promtool", "check", "rules", file], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert f"{len(QUERIES)} rules found" in done.stdout


def test_provisioning_points_at_what_is_mounted():
    source = yaml.safe_load((FOLDER / "provisioning" / "datasources" / "prometheus.yml").read_text())["datasources"][0]
    provider = yaml.safe_load((FOLDER / "provisioning" / "dashboards" / "parallelsearch.yml").read_text())["providers"][0]
    compose = yaml.safe_load((ROOT / "docker-compose.yml").read_text())["services"]
    assert source["uid"] == "prometheus"
    assert source["url"] == "http://prometheus:9090"
    assert f"./deploy/grafana/dashboards:{provider['options']['path']}:ro" in compose["grafana"]["volumes"]
    assert (
        f"./deploy/grafana/provisioning:{compose['grafana']['environment']['GF_PATHS_PROVISIONING']}:ro"
        in compose["grafana"]["volumes"]
    )
