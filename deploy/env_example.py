"""Writes `.env.example`: every setting of the platform with its default, read from the code that reads it.

usage: .venv/bin/python deploy/env_example.py > .env.example
"""

from __future__ import annotations

import importlib
import json
import os
import sys
from enum import Enum
from pathlib import Path
from typing import Any

from pydantic import AliasChoices, SecretStr
from pydantic_core import PydanticUndefined
from pydantic_settings import BaseSettings

SERVICES = {
    "gateway": "the public API and the rollout loop",
    "retriever": "encoder, index and corpus",
    "policy": "the model behind vLLM",
    "trainer": "training runs",
}
HEAD = """\
# Every setting of the platform, with its default. Copy to .env, uncomment what you change; an empty value is the default.
# Everything binds to 127.0.0.1 unless told otherwise. Written by deploy/env_example.py from the settings themselves.

# --- the whole platform on one machine (parallelsearch up, make run)
# Where pids, logs, sockets, the demo index and the admin token are kept: .state in the project, else ~/.local/state/parallelsearch
# PARALLELSEARCH_STATE_DIR=
# Set, the embedded Valkey listens on this port; else on a socket in the state folder
# REDIS_PORT=

# --- docker compose (docker-compose.yml; GATEWAY_PORT and RETRIEVER_PORT are the published ports there)
# PROMETHEUS_PORT=9090
# GRAFANA_PORT=3000
# 0 with the profile gpu: policy and retriever of the CPU stay away
# CPU_ENGINES=1
# Memory of the CPU policy's container, and of each container with a GPU
# POLICY_MEMORY=6g
# GPU_HOST_MEMORY=32g
# The index that is built and served; another corpus is a file below DATA, named /data/FILE, and needs a name of its own
# INDEX_NAME=demo
# INDEX_CORPUS=
# A folder of this machine with corpora and training data
# DATA=
# What the canary asks, and how often
# CANARY_QUESTIONS=12
# CANARY_INTERVAL_S=600

# --- parallelsearch ask, eval … against a gateway that wants keys
# PARALLELSEARCH_API_KEY=
"""


def settings_of(service: str) -> list[type[BaseSettings]]:
    module = importlib.import_module(f"{service}.settings")
    found = (value for value in vars(module).values() if isinstance(value, type) and issubclass(value, BaseSettings))
    return sorted((each for each in found if each.__module__ == module.__name__), key=lambda each: each.__name__)


def written(default: Any) -> str:
    """A default as the environment would spell it; empty for none and for what has to be given."""
    match default:
        case None | SecretStr():
            return ""
        case _ if default is PydanticUndefined:
            return ""
        case bool():
            return str(default).lower()
        case Enum():
            return str(default.value)
        case tuple() if default and all(isinstance(item, Path) for item in default):
            return os.pathsep.join(map(str, default))
        case tuple() | list() | dict():
            return json.dumps(default, default=str)
        case _:
            return str(default)


def lines() -> list[str]:
    out, seen = HEAD.splitlines(), set()
    for service, what in SERVICES.items():
        out += ["", f"# --- {service}: {what}"]
        for settings in settings_of(service):
            prefix = settings.model_config.get("env_prefix", "")
            for name, field in settings.model_fields.items():
                alias = field.validation_alias
                first = alias.choices[0] if isinstance(alias, AliasChoices) else alias
                variable = str(first) if first else (prefix + name).upper()
                if variable in seen:
                    continue
                seen.add(variable)
                if field.description:
                    out.append(f"# {' '.join(field.description.split())}")
                out.append(f"# {variable}={written(field.default)}")
    return out


if __name__ == "__main__":
    sys.stdout.write("\n".join(lines()) + "\n")
