"""A TCP proxy that cuts its first connections off after so many bytes of the answer."""

import socket
import threading
from contextlib import contextmanager, suppress


@contextmanager
def cutting_proxy(port, after_bytes):
    """The port of a proxy to `port`; its n-th connection ends after `after_bytes[n]` bytes, later ones are left alone."""
    limits = iter(after_bytes)
    listening = socket.create_server(("127.0.0.1", 0))
    threading.Thread(target=_serve, args=(listening, port, limits), daemon=True).start()
    try:
        yield listening.getsockname()[1]
    finally:
        listening.close()


def _serve(listening, port, limits):
    with suppress(OSError):
        while True:
            caller, _ = listening.accept()
            threading.Thread(target=_pass_on, args=(caller, port, next(limits, None)), daemon=True).start()


def _pass_on(caller, port, limit):
    with caller, socket.create_connection(("127.0.0.1", port)) as server, suppress(OSError):
        threading.Thread(target=_copy, args=(caller, server), daemon=True).start()
        _copy(server, caller, limit)
        caller.shutdown(socket.SHUT_RDWR)


def _copy(source, target, limit=None):
    with suppress(OSError):
        while (limit is None or limit > 0) and (piece := source.recv(65_536 if limit is None else min(limit, 65_536))):
            target.sendall(piece)
            limit = None if limit is None else limit - len(piece)
        if limit is None:
            target.shutdown(socket.SHUT_WR)
