"""The plan of the platform: which processes run with which variables, from the settings alone.

The policy takes longest to start, so that it goes first, and the demo index is built meanwhile.
"""

from __future__ import annotations

import hashlib
import os
import sys
from collections.abc import Mapping

from parallelsearch.supervisor import valkey
from parallelsearch.supervisor.demo_index import build_step
from parallelsearch.supervisor.settings import PlatformSettings
from parallelsearch.supervisor.steps import Plan, Probe, ProbeKind, Step

PREFIXES = ("GATEWAY_", "RETRIEVER_", "POLICY_", "TRAINER_", "MILVUS_")
OF_SEVERAL = {"ADMIN_TOKEN", "AUTH", "OTEL_EXPORTER_OTLP_ENDPOINT", "TRACE_FILE", "WANDB_API_KEY"}
"""What the services read from the environment: by their prefixes, and without one."""


def service(settings: PlatformSettings, name: str, after: tuple[str, ...] = ()) -> Step:
    url = settings.endpoints[name].url
    return Step(name, (sys.executable, "-m", name), after, Probe(ProbeKind.HTTP, f"{url}/readyz"), url=url)


def shared_environment(settings: PlatformSettings) -> dict[str, str]:
    """What every service is told: where each listens, where its upstreams are, and where things lie."""
    env: dict[str, str] = {}
    for name, endpoint in settings.endpoints.items():
        env |= {f"{name.upper()}_HOST": endpoint.host, f"{name.upper()}_PORT": str(endpoint.port)}
    return env | {
        "RETRIEVER_URL": settings.endpoints["retriever"].url,
        "TRAINER_URL": settings.endpoints["trainer"].url,
        "POLICY_BASE_URL": settings.policy_base_url or f"{settings.endpoints['policy'].url}/v1",
        "REDIS_URL": valkey.redis_url(settings),
        "RETRIEVER_INDEX": settings.index or str(settings.state.demo_index),
        "RETRIEVER_INDEXES": str(settings.indexes),
        "TRAINER_RUNS_DIR": str(settings.runs),
        "TRAINER_MODEL_ROOTS": settings.model_roots or os.pathsep.join(("models", str(settings.runs))),
        "POLICY_CHECKPOINT_ROOTS": settings.checkpoint_roots or str(settings.runs),
        "RETRIEVER_WATCH_S": settings.watch_s or "1",
        "RETRIEVER_SERVE_UPLOADS": settings.serve_uploads or "true",
        "PARALLELSEARCH_STATE_DIR": str(settings.state.root),
        "PARALLELSEARCH_CACHE_DIR": str(settings.cache),
        # SQLite, FAISS and the like take paths for UTF-8, whatever the locale has Python read them as.
        "PYTHONUTF8": "1",
    }


def given_settings(environ: Mapping[str, str], env: Mapping[str, str]) -> dict[str, str]:
    """Digests of the settings that the environment gives beside those of the plan; some are secrets."""
    found = {name: text for name, text in environ.items() if text and (name.startswith(PREFIXES) or name in OF_SEVERAL)}
    return {name: hashlib.sha256(text.encode()).hexdigest() for name, text in found.items() if name not in env}


def make_plan(settings: PlatformSettings, *, build_index: bool) -> Plan:
    """The steps that are needed: no policy or Valkey of its own where another is given, no build where the index is there."""
    steps = []
    if not settings.redis_url:
        steps.append(valkey.step(settings))
    if not settings.policy_base_url:
        steps.append(service(settings, "policy"))
    if build_index:
        steps.append(build_step(settings.state.demo_index))
    steps.append(service(settings, "retriever", after=("index",) if build_index else ()))
    steps += [service(settings, "trainer"), service(settings, "gateway")]
    return Plan(tuple(steps), settings.gateway_url, shared_environment(settings))
