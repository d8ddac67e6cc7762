"""vLLM's routes that change the engine and ask for no token: the admin's alone.

What anybody may call is named, and all else that is sent needs the token, since each release of vLLM brings further commands.
"""

from __future__ import annotations

from pydantic import SecretStr
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.types import ASGIApp, Receive, Scope, Send

from servicekit.auth import require_admin
from servicekit.errors import http_problem

READING = frozenset({"GET", "HEAD", "OPTIONS"})
OPEN = (
    *("/v1/", "/v2/", "/cohere/", "/inference/", "/tokenize", "/detokenize", "/generative_scoring", "/invocations", "/ping"),
    *("/classify", "/pooling", "/rerank", "/score"),
)
"""Beginnings of the paths under which texts are generated, scored and tokenised."""
COMMANDS = ("/v1/load_lora_adapter", "/v1/unload_lora_adapter")


def is_command(scope: Scope) -> bool:
    if scope["type"] != "http" or scope["method"] in READING:
        return False
    path = scope["path"]
    return not path.startswith(OPEN) or path.startswith(COMMANDS)


class CommandGuard:
    """Lets commands through with the admin token; 403 where none is configured."""

    def __init__(self, app: ASGIApp, *, admin_token: SecretStr | None) -> None:
        self.app = app
        self.admin_token = admin_token

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if is_command(scope):
            try:
                require_admin(Request(scope), self.admin_token)
            except HTTPException as error:
                await http_problem(error)(scope, receive, send)
                return
        await self.app(scope, receive, send)
