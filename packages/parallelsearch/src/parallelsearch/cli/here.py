"""What a command finds around it: the settings of this environment, and the address of the gateway to talk to."""

from __future__ import annotations

import os
from pathlib import Path

from parallelsearch.supervisor import launch
from parallelsearch.supervisor.settings import PlatformSettings, from_environment

API_KEY = "PARALLELSEARCH_API_KEY"


def settings() -> PlatformSettings:
    return from_environment(os.environ, Path.cwd())


def gateway_url(given: str | None) -> str:
    """The one that is given, else that of the platform which runs here, else where it would be started."""
    if given:
        return given
    chosen = settings()
    if not os.environ.get("GATEWAY_PORT") and (found := launch.running(chosen.state)) and found.url:
        return found.url
    return chosen.gateway_url


def api_key() -> str:
    return os.environ.get(API_KEY, "")
