"""A retriever on a real socket, so that the commands which it starts for documents have it encode, as they do elsewhere."""

from contextlib import contextmanager

import httpx2
from live import live
from processes import free_port

from retriever.app import create_app, open_retriever
from retriever.settings import RetrieverSettings


@contextmanager
def live_retriever(**given):
    """A client of it; `given` are settings."""
    settings = RetrieverSettings(port=free_port(), **given)
    app = create_app(settings, open_retriever(settings))
    with live(app, port=settings.port) as server, httpx2.Client(base_url=server.url, timeout=60) as client:
        yield client
