"""Services as processes with replicas, and what a Kubernetes Service does for them: connections go to those that are ready."""

import asyncio
import itertools
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import httpx2
from service_stand_ins import free_port

PRE_STOP_S = 2.0
"""Between a replica's leaving the endpoints and its SIGTERM, as preStop in the manifests has it."""


class Replica:
    """`python -m SERVICE`, or another program in its place, with these settings, on a port of its own that stays over restarts."""

    def __init__(self, service: str, folder: Path, program: Path | None = None, **settings: str) -> None:
        self.service, self.port = service, free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        self._log = folder / f"{service}-{self.port}.log"
        self._env = os.environ | {f"{service.upper()}_PORT": str(self.port)} | settings
        self._command = [sys.executable, *(["-m", service] if program is None else [str(program)])]
        self._process: subprocess.Popen | None = None

    def start(self) -> None:
        with self._log.open("a") as log:
            self._process = subprocess.Popen(self._command, env=self._env, stdout=log, stderr=log, start_new_session=True)

    def wait_until_ready(self, timeout_s: float = 300) -> None:
        until = time.monotonic() + timeout_s
        while True:
            assert self._process.poll() is None and time.monotonic() < until, self._log.read_text()[-3000:]
            try:
                if httpx2.get(f"{self.url}/readyz", timeout=10, trust_env=False).json()["status"] == "ready":
                    return
            except (httpx2.TransportError, ValueError):
                pass
            time.sleep(0.5)

    def stop(self, timeout_s: float = 150) -> float:
        """SIGTERM; the seconds until it had ended. It must end well."""
        started = time.monotonic()
        self._process.terminate()
        code = self._process.wait(timeout_s)
        assert code in (0, -signal.SIGTERM), self._log.read_text()[-3000:]
        return time.monotonic() - started

    def close(self) -> None:
        if self._process is not None and self._process.poll() is None:
            os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()


class Balancer:
    """A port in front of replicas: each new connection goes to the next ready one, bytes pass both ways as they come."""

    def __init__(self, *replicas: Replica) -> None:
        self.ready = [replica.port for replica in replicas]
        self._turns = itertools.count()
        self._loop = asyncio.new_event_loop()
        threading.Thread(target=self._loop.run_forever, daemon=True).start()
        self._server = asyncio.run_coroutine_threadsafe(self._listen(), self._loop).result(10)
        self.url = f"http://127.0.0.1:{self._server.sockets[0].getsockname()[1]}"

    async def _listen(self) -> asyncio.Server:
        return await asyncio.start_server(self._connected, "127.0.0.1", 0, backlog=512)

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        port = self.ready[next(self._turns) % len(self.ready)]
        try:
            far_reader, far_writer = await asyncio.open_connection("127.0.0.1", port)
        except OSError:
            writer.close()
            return
        await asyncio.gather(self._copy(reader, far_writer), self._copy(far_reader, writer), return_exceptions=True)

    async def _copy(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while data := await reader.read(65_536):
                writer.write(data)
                await writer.drain()
        finally:
            writer.close()

    def close(self) -> None:
        self._loop.call_soon_threadsafe(self._server.close)
        self._loop.call_soon_threadsafe(self._loop.stop)

    def replace(self, replica: Replica) -> tuple[float, float]:
        """A rolling update of one replica; seconds that it took to end, and to be ready again."""
        self.ready.remove(replica.port)
        time.sleep(PRE_STOP_S)
        ended_s, started = replica.stop(), time.monotonic()
        replica.start()
        replica.wait_until_ready()
        self.ready.append(replica.port)
        return ended_s, time.monotonic() - started
