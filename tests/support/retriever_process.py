"""The retriever as a process of its own, on a free port."""

import os
import socket
import subprocess
import sys
import time
from contextlib import contextmanager

import httpx2


@contextmanager
def running_retriever(index_folder):
    """Yields the process and a client of it, once it is ready; ends it if the test did not."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    environment = {**os.environ, "RETRIEVER_INDEX": str(index_folder), "RETRIEVER_PORT": str(port)}
    process = subprocess.Popen([sys.executable, "-m", "retriever"], env=environment, stderr=subprocess.DEVNULL)
    client = httpx2.Client(base_url=f"http://127.0.0.1:{port}", timeout=30)
    try:
        for _ in range(1_100):
            try:
                client.get("/readyz").raise_for_status()
                break
            except httpx2.TransportError:
                assert process.poll() is None, f"the retriever ended with {process.returncode}"
                time.sleep(0.1)
        yield process, client
    finally:
        process.kill()
        process.wait()
        client.close()
