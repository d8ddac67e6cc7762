"""`GET /`: the web page. Its files are built from services/gateway/web and lie in the package; they are read once, at start."""

from __future__ import annotations

import gzip
import hashlib
import mimetypes
from dataclasses import dataclass
from importlib.resources import files
from importlib.resources.abc import Traversable

from fastapi import APIRouter, HTTPException, Request
from fastapi.responses import Response

CONTENT_SECURITY_POLICY = "; ".join(
    (
        "default-src 'none'",
        "script-src 'self'",
        "style-src 'self'",
        "connect-src 'self'",
        "img-src 'self' data:",
        "base-uri 'none'",
        "form-action 'none'",
        "frame-ancestors 'none'",
    )
)
HEADERS = {
    "Content-Security-Policy": CONTENT_SECURITY_POLICY,
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Vary": "Accept-Encoding",
}
REVALIDATED = "no-cache"
FOR_EVER = "public, max-age=31536000, immutable"
"""For assets: their names carry a hash of their content."""


@dataclass(frozen=True, slots=True)
class PageFile:
    """A file of the page, plain and compressed."""

    media_type: str
    etag: str
    plain: bytes
    zipped: bytes
    caching: str

    @classmethod
    def read(cls, file: Traversable, caching: str) -> PageFile:
        plain = file.read_bytes()
        media_type = mimetypes.guess_type(file.name)[0] or "application/octet-stream"
        etag = f'"{hashlib.sha256(plain).hexdigest()[:24]}"'
        return cls(media_type, etag, plain, gzip.compress(plain, 9, mtime=0), caching)

    def respond(self, request: Request) -> Response:
        headers = HEADERS | {"ETag": self.etag, "Cache-Control": self.caching}
        if self.etag in request.headers.get("if-none-match", ""):
            return Response(status_code=304, headers=headers)
        if "gzip" in request.headers.get("accept-encoding", ""):
            return Response(self.zipped, headers=headers | {"Content-Encoding": "gzip"}, media_type=self.media_type)
        return Response(self.plain, headers=headers, media_type=self.media_type)


def page_router() -> APIRouter:
    """The page at `/`, and its scripts and styles."""
    folder = files("gateway") / "web"
    page = PageFile.read(folder / "index.html", REVALIDATED)
    assets = {file.name: PageFile.read(file, FOR_EVER) for file in (folder / "assets").iterdir()}
    router = APIRouter(include_in_schema=False)

    @router.api_route("/", methods=["GET", "HEAD"])
    async def index(request: Request) -> Response:
        return page.respond(request)

    @router.api_route("/assets/{name}", methods=["GET", "HEAD"])
    async def asset(name: str, request: Request) -> Response:
        if name not in assets:
            raise HTTPException(404, "The page has no such file. Load it anew.")
        return assets[name].respond(request)

    return router
