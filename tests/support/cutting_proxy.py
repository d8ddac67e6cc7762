"""TCP proxies that cut connections off: the first ones after so many bytes of the answer, or all that there are at a word.

Or that let them stand, and pass nothing on.
"""

import socket
import threading
from contextlib import contextmanager, suppress


@contextmanager
def cutting_proxy(port, after_bytes):
    """The port of a proxy to `port`; its n-th connection ends after `after_bytes[n]` bytes, later ones are left alone."""
    with _listening(port, iter(after_bytes), []) as proxy_port:
        yield proxy_port


@contextmanager
def severed_proxy(port):
    """The port of a proxy to `port`, and a function that cuts all of its connections off; later ones are left alone."""
    callers = []

    def sever():
        while callers:
            with suppress(OSError):
                callers.pop().shutdown(socket.SHUT_RDWR)

    with _listening(port, iter(()), callers) as proxy_port:
        yield proxy_port, sever


@contextmanager
def stalled_proxy(port):
    """The port of a proxy to `port`, and a function after which the connections that there are stand and carry nothing."""
    callers, stalled = [], set()
    with _listening(port, iter(()), callers, stalled) as proxy_port:
        yield proxy_port, lambda: stalled.update(callers)


@contextmanager
def _listening(port, limits, callers, stalled=frozenset()):
    listening = socket.create_server(("127.0.0.1", 0))
    threading.Thread(target=_serve, args=(listening, port, limits, callers, stalled), daemon=True).start()
    try:
        yield listening.getsockname()[1]
    finally:
        listening.close()


def _serve(listening, port, limits, callers, stalled):
    with suppress(OSError):
        while True:
            caller, _ = listening.accept()
            callers.append(caller)
            threading.Thread(target=_pass_on, args=(caller, port, next(limits, None), stalled), daemon=True).start()


def _pass_on(caller, port, limit, stalled):
    with caller, socket.create_connection(("127.0.0.1", port)) as server, suppress(OSError):
        threading.Thread(target=_copy, args=(caller, server), daemon=True).start()
        _copy(server, caller, limit, stalled)
        caller.shutdown(socket.SHUT_RDWR)


def _copy(source, target, limit=None, stalled=frozenset()):
    with suppress(OSError):
        while (limit is None or limit > 0) and (piece := source.recv(65_536 if limit is None else min(limit, 65_536))):
            if target in stalled:
                continue
            target.sendall(piece)
            limit = None if limit is None else limit - len(piece)
        if limit is None:
            target.shutdown(socket.SHUT_WR)
