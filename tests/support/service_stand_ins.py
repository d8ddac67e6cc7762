"""Tiny services for the supervisor's tests, each a command: one that is ready late, dies, ignores SIGTERM, or has children."""

import socket
import sys
import textwrap
import time

from parallelsearch.supervisor.steps import Probe, ProbeKind, Step

SERVER = """
import http.server, os, signal, subprocess, sys, time
port, options = int(sys.argv[1]), sys.argv[2:]
started = time.monotonic()
print("stand-in speaks", flush=True)
if "deaf" in options:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
if "parent" in options:
    child = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); time.sleep(60)"
    subprocess.Popen([sys.executable, "-c", child])
    subprocess.Popen([sys.executable, "-c", child], start_new_session=True)
if "dies" in options:
    print("stand-in cannot go on", flush=True)
    sys.exit(7)
late_s = float(next((option[5:] for option in options if option.startswith("late=")), 0))
class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        ready = time.monotonic() - started >= late_s
        body = b'{"status": "ready", "checks": {}}' if ready else b'{"status": "starting", "checks": {"model": "loading"}}'
        self.send_response(200 if ready else 503)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)
    def log_message(self, *_):
        pass
http.server.ThreadingHTTPServer(("127.0.0.1", port), Handler).serve_forever()
"""


def free_port():
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


def service(name, *options, after=(), required=True, timeout_s=20.0, grace_s=3.0):
    port = free_port()
    url = f"http://127.0.0.1:{port}"
    return Step(
        name,
        (sys.executable, "-c", textwrap.dedent(SERVER), str(port), *options),
        after,
        Probe(ProbeKind.HTTP, f"{url}/readyz"),
        required,
        url,
        start_timeout_s=timeout_s,
        stop_grace_s=grace_s,
    )


def task(name, code, after=()):
    return Step(name, (sys.executable, "-c", code), after)


def eventually(condition, within_s=20.0):
    """Whether it comes to hold in time."""
    deadline = time.monotonic() + within_s
    while time.monotonic() < deadline:
        if condition():
            return True
        time.sleep(0.05)
    return False
