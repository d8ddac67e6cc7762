"""docs/retriever.md names every setting, route, metric and option, and none that does not exist."""

import re
from pathlib import Path

import pytest
from prometheus_client import REGISTRY

import retriever.metrics  # noqa: F401  # registers what is checked here
from retriever.settings import RetrieverSettings
from servicekit.settings import ServiceSettings

DOC = (Path(__file__).resolve().parents[2] / "docs" / "retriever.md").read_text()
PREFIX = "parallelsearch_retriever_"


def test_every_setting_of_the_retriever_is_documented_and_every_documented_one_exists():
    own = set(RetrieverSettings.model_fields) - set(ServiceSettings.model_fields) | {"host", "port", "allowed_hosts"}
    known = {str(RetrieverSettings.model_fields[name].validation_alias or f"RETRIEVER_{name.upper()}") for name in own}
    documented = set(re.findall(r"`((?:RETRIEVER|MILVUS)_[A-Z_]+)`", DOC))
    assert documented == known


def test_every_metric_is_documented():
    names = {metric.name.removeprefix(PREFIX) for metric in REGISTRY.collect() if metric.name.startswith(PREFIX)}
    missing = [name for name in names if not re.search(rf"`{name}(_total)?`", DOC)]
    assert not missing


def test_documented_routes_exist(client):
    paths = set(client.get("/openapi.json").json()["paths"])
    documented = set(re.findall(r"`(?:POST|GET) (/[\w/]+)`", DOC))
    assert documented >= {"/v1/retrieve", "/retrieve", "/v1/index", "/v1/index/reload"}
    assert documented <= paths


@pytest.mark.parametrize("option", sorted(set(re.findall(r"(--[a-z][a-z0-9-]+)", DOC))))
def test_documented_options_exist(option):
    from typer.testing import CliRunner

    from retriever.commands import app

    runner = CliRunner(env={"COLUMNS": "200", "TERM": "dumb", "NO_COLOR": "1"})
    texts = [runner.invoke(app, [command, "--help"]).output for command in ("build", "inspect")]
    assert any(option in text for text in texts)
