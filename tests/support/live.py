"""ASGI applications on real sockets: each in a thread of its own, on a free port if none is named."""

import threading
import time
from contextlib import contextmanager

import uvicorn


class LiveServer:
    def __init__(self, app, port=0, **options):
        config = uvicorn.Config(app, host="127.0.0.1", port=port, log_config=None, access_log=False, **options)
        self._server = uvicorn.Server(config)
        self._thread = threading.Thread(target=self._server.run, daemon=True)

    def start(self):
        self._thread.start()
        until = time.monotonic() + 10
        while not self._server.started:
            assert self._thread.is_alive(), "the server did not start"
            assert time.monotonic() < until
            time.sleep(0.01)
        self.port = self._server.servers[0].sockets[0].getsockname()[1]
        self.url = f"http://127.0.0.1:{self.port}"
        return self

    def stop(self):
        stop_all(self)


def stop_all(*servers):
    """At once, since each takes up to a fifth of a second to notice and to end."""
    for server in servers:
        server._server.should_exit = True
    for server in servers:
        server._thread.join(10)


@contextmanager
def live(app, **options):
    server = LiveServer(app, **options).start()
    try:
        yield server
    finally:
        server.stop()
