"""What deployment files may name, read from the code: settings, ports, routes, metrics, images."""

import importlib
import re
import sys
from functools import cache
from pathlib import Path
from typing import Any

import yaml
from prometheus_client import REGISTRY, CollectorRegistry
from prometheus_client.registry import Collector

ROOT = Path(__file__).resolve().parents[2]
SERVICES = ("gateway", "retriever", "policy", "trainer")
CANARY_PORT = 9105
FOREIGN_VARIABLES = {
    "HF_HOME": "where huggingface_hub keeps models",
    "HOME": "of the process",
    "MPLCONFIGDIR": "where matplotlib may write",
    "PATH": "of the process",
    "PYTHONDONTWRITEBYTECODE": "Python's own",
    "PYTHONUNBUFFERED": "Python's own",
    "OMP_NUM_THREADS": "OpenMP's own",
}
IMAGES = {
    *(f"parallelsearch/{service}" for service in SERVICES),
    "parallelsearch/policy-gpu",
    "parallelsearch/retriever-gpu",
    "redis:7.4-bookworm",
    "prom/prometheus:v3.5.0",
    "grafana/grafana:12.1.0",
}
VLLM_METRICS = {
    "vllm:num_requests_running": "gauge",
    "vllm:num_requests_waiting": "gauge",
    "vllm:kv_cache_usage_perc": "gauge",
    "vllm:prompt_tokens_total": "counter",
    "vllm:generation_tokens_total": "counter",
    "vllm:prefix_cache_queries_total": "counter",
    "vllm:prefix_cache_hits_total": "counter",
    "vllm:num_preemptions_total": "counter",
    "vllm:time_to_first_token_seconds_bucket": "histogram",
    "vllm:inter_token_latency_seconds_bucket": "histogram",
    "vllm:request_queue_time_seconds_bucket": "histogram",
}
"""vLLM registers these when its engine starts, which takes minutes; a test looks for the names in its source instead."""


@cache
def variables() -> frozenset[str]:
    """Every setting of the platform: `.env.example` is held against the code by a test of its own."""
    return frozenset(re.findall(r"^# ([A-Z][A-Z0-9_]+)=", (ROOT / ".env.example").read_text(), re.M)) | FOREIGN_VARIABLES.keys()


def is_variable(name: str) -> bool:
    return name in variables() or name.partition("__")[0] in variables()


def port_of(service: str) -> int:
    settings = importlib.import_module(f"{service}.settings")
    return getattr(settings, f"{service.capitalize()}Settings").model_fields["port"].default


def sample_names(collector: Collector) -> set[str]:
    """What Prometheus sees of a collector: a histogram shows buckets, sum and count."""
    suffixes = {"counter": ("_total",), "histogram": ("_bucket", "_sum", "_count"), "gauge": ("",)}
    return {metric.name + suffix for metric in collector.collect() for suffix in suffixes.get(metric.type, ("",))}


@cache
def metrics() -> frozenset[str]:
    """The names of all samples that the platform exports."""
    for module in ("gateway.metrics", "retriever.metrics", "policy.metrics", "trainer.metrics", "servicekit.metrics"):
        importlib.import_module(module)
    from parallelsearch.evaluation.canary import CanaryMetrics

    canary = CollectorRegistry()
    CanaryMetrics(canary)
    ours = {name for registry in (REGISTRY, canary) for collector in _collectors(registry) for name in sample_names(collector)}
    return frozenset({name for name in ours if name.startswith("parallelsearch_")} | VLLM_METRICS.keys())


def _collectors(registry: CollectorRegistry) -> list[Collector]:
    return list(registry._collector_to_names)


def site_packages() -> Path:
    return next(Path(path) for path in sys.path if path.endswith("site-packages"))


@cache
def rules() -> tuple[dict[str, Any], ...]:
    """Every recording rule and alert of deploy/prometheus."""
    files = [yaml.safe_load(path.read_text()) for path in sorted((ROOT / "deploy" / "prometheus" / "rules").glob("*.yml"))]
    return tuple(rule for file in files for group in file["groups"] for rule in group["rules"])


def recorded() -> set[str]:
    return {rule["record"] for rule in rules() if "record" in rule}


def named_ratios(expression: str) -> set[str]:
    """What an expression takes from recording rules."""
    return set(re.findall(r"\b(?:job:)?parallelsearch(?:_\w+)?:\w+:\w+", expression))


def named_metrics(expression: str) -> set[str]:
    """What an expression takes from the code."""
    return set(re.findall(r"(?<![\w:])(?:parallelsearch_\w+|vllm:\w+)(?![\w:])", expression))
