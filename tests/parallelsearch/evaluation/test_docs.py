from pathlib import Path

from prometheus_client import CollectorRegistry

from parallelsearch.evaluation import canary
from parallelsearch.evaluation.metrics import METRICS

PAGE = (Path(__file__).parents[3] / "docs" / "evaluation.md").read_text(encoding="utf-8")


def test_the_page_defines_every_metric_in_the_words_of_the_code():
    for metric in METRICS:
        assert f"| `{metric.name}` | {metric.title} | {metric.definition} | {metric.source} |" in PAGE


def test_the_page_names_every_metric_of_the_canary():
    documented = [line for line in canary.__doc__.splitlines() if line.startswith("| `")]

    registry = CollectorRegistry()
    canary.CanaryMetrics(registry)
    exported = {metric.name + ("_total" if metric.type == "counter" else "") for metric in registry.collect()}
    assert {line.split("`")[1].partition("{")[0] for line in documented} == exported
    assert all(line.split("`")[1] in PAGE for line in documented)
