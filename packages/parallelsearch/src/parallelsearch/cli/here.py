"""What a command finds around it: variables (of the process, else of a `.env` file), settings, and the gateway to talk to."""

from __future__ import annotations

import os
from pathlib import Path

from dotenv import dotenv_values

from parallelsearch.errors import ConfigurationError
from parallelsearch.supervisor import launch
from parallelsearch.supervisor.places import SOURCE_ROOT
from parallelsearch.supervisor.settings import PlatformSettings, from_environment

API_KEY = "PARALLELSEARCH_API_KEY"
ADDRESSES = {"policy": "POLICY_BASE_URL", "retriever": "RETRIEVER_URL", "trainer": "TRAINER_URL"}
"""The variables by which a platform tells its services where the others are."""


def environment() -> dict[str, str]:
    """The process's variables over those of `.env`, here or at the root of the project; an empty value there is none."""
    file = next((folder / ".env" for folder in (Path.cwd(), SOURCE_ROOT) if (folder / ".env").is_file()), None)
    try:
        written = dotenv_values(file) if file else {}
    except UnicodeDecodeError as error:
        raise ConfigurationError(f"{file} is not text in UTF-8 (byte {error.start}).") from None
    return {name: value for name, value in written.items() if value} | dict(os.environ)


def settings() -> PlatformSettings:
    return from_environment(environment(), Path.cwd())


def gateway_url(given: str | None) -> str:
    """The one that is given, else that of the platform which runs here, else where it would be started."""
    if given:
        return given
    chosen = settings()
    if not environment().get("GATEWAY_PORT") and (found := launch.running(chosen.state)) and found.url:
        return found.url
    return chosen.gateway_url


def service_url(name: str) -> str:
    """Where the platform that runs here has this service, else where it would; of a policy elsewhere, its first replica."""
    chosen, variables = settings(), environment()
    given = chosen.policy_base_url if name == "policy" else ""
    if not given and not variables.get(f"{name.upper()}_PORT") and launch.running(chosen.state):
        plan = launch.read_plan(chosen.state.plan)
        given = plan.env.get(ADDRESSES[name], "") if plan else ""
    return given.partition(",")[0].strip() or chosen.endpoints[name].url


def api_key() -> str:
    return environment().get(API_KEY, "")


def running_retriever() -> dict[str, str]:
    """The variables that name the retriever of the platform which runs here, and its token; none where none runs."""
    chosen = settings()
    found = launch.running(chosen.state)
    url = next((step.url for step in found.steps if step.name == "retriever"), "") if found else ""
    return {"RETRIEVER_URL": url, "ADMIN_TOKEN": chosen.admin_token or chosen.state.read_admin_token()} if url else {}
