"""The admin token: a dependency for every route that writes."""

from __future__ import annotations

import hmac

from fastapi import HTTPException, Request
from pydantic import SecretStr


def require_admin(request: Request, token: SecretStr | None) -> None:
    """Lets the request pass if it carries `Authorization: Bearer <admin token>`; 403 where no token is configured."""
    if token is None:
        raise HTTPException(403, "Admin routes are closed: set ADMIN_TOKEN and start the service again.")
    scheme, _, given = request.headers.get("authorization", "").partition(" ")
    if scheme.lower() != "bearer" or not hmac.compare_digest(given.encode(), token.get_secret_value().encode()):
        raise HTTPException(401, "This route needs the admin token as `Authorization: Bearer …`.")
