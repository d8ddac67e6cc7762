"""The transport against bare sockets: whole answers, streams, and every way in which a server can fail."""

import asyncio
import gc
import ssl
import subprocess
import weakref
from contextlib import asynccontextmanager
from pathlib import Path

import httpx2
import pytest

from parallelsearch.clients.http1 import MAX_HEAD_BYTES, MAX_UNREAD_BYTES, Http1Transport

WHOLE = b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello"
CHUNKED = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
TIMEOUTS = {"connect": 1.0, "read": 0.3, "pool": 0.3}


class Server:
    """Answers each request of each connection by `script(server, reader, writer)`; notes what came."""

    def __init__(self, script):
        self.requests, self.connections, self.left, self._script = [], 0, asyncio.Event(), script

    async def __call__(self, reader, writer):
        self.connections += 1
        try:
            while True:
                head = await reader.readuntil(b"\r\n\r\n")
                length = int(head.lower().partition(b"content-length: ")[2].partition(b"\r\n")[0] or 0)
                self.requests.append(head + await reader.readexactly(length))
                await self._script(writer)
                await writer.drain()
        except (OSError, asyncio.IncompleteReadError):
            pass
        finally:
            self.left.set()
            writer.close()


@asynccontextmanager
async def served(script, *, connections=8, keep_alive_s=5.0, tls=None):
    """A server on a free port, the URL and a transport."""
    server = Server(script)
    listening = await asyncio.start_server(server, "127.0.0.1", 0, ssl=tls)
    transport = Http1Transport(connections=connections, keep_alive_s=keep_alive_s)
    try:
        yield server, f"{'https' if tls else 'http'}://127.0.0.1:{listening.sockets[0].getsockname()[1]}/a%20b?c=d", transport
    finally:
        await transport.aclose()
        listening.close()


def saying(*pieces, pause_s=0.02, close=False):
    async def script(writer):
        for piece in pieces:
            writer.write(piece)
            await writer.drain()
            await asyncio.sleep(pause_s)
        if close:
            writer.close()

    return script


async def ask(transport, url, content=b"{}", method="POST", **headers):
    request = httpx2.Request(method, url, content=content, headers=headers, extensions={"timeout": TIMEOUTS})
    return await transport.handle_async_request(request)


def run(work):
    asyncio.run(asyncio.wait_for(work, 20))


def test_a_request_is_sent_as_it_stands_and_its_connection_is_used_again():
    async def work():
        async with served(saying(WHOLE)) as (server, url, transport):
            for _ in range(3):
                response = await ask(transport, url, **{"X-Deadline-Ms": "7"})
                assert (response.status_code, await response.aread(), response.headers["content-length"]) == (200, b"hello", "5")
            assert server.connections == 1
            lines = server.requests[0].split(b"\r\n")
            assert lines[0] == b"POST /a%20b?c=d HTTP/1.1"
            assert {b"X-Deadline-Ms: 7", b"Content-Length: 2"} <= set(lines)
            assert server.requests[0].endswith(b"\r\n\r\n{}")

    run(work())


@pytest.mark.parametrize(
    ("pieces", "close", "body"),
    [
        ([WHOLE[:10], WHOLE[10:41], WHOLE[41:]], False, b"hello"),
        ([b"HTTP/1.1 100 Continue\r\n\r\n", WHOLE], False, b"hello"),
        ([b"HTTP/1.1 103 Early Hints\r\nLink: </x>\r\n\r\n" + WHOLE], False, b"hello"),
        ([CHUNKED, b"3\r\nhel\r\n", b"2\r\nlo\r\n0\r\n\r\n"], False, b"hello"),
        ([b"HTTP/1.1 204 No Content\r\n\r\n"], False, b""),
        ([b"HTTP/1.1 200 OK\r\n\r\nhel", b"lo"], True, b"hello"),
        ([b"HTTP/1.0 200 OK\r\nContent-Length: 5\r\n\r\nhello"], True, b"hello"),
        ([b"HTTP/1.1 503 No\r\nConnection: close\r\nContent-Length: 0\r\n\r\n"], True, b""),
    ],
)
def test_every_way_to_end_an_answer_is_understood(pieces, close, body):
    async def work():
        async with served(saying(*pieces, close=close)) as (_, url, transport):
            for _ in range(2):
                response = await ask(transport, url)
                assert await response.aread() == body

    run(work())


def test_a_stream_is_given_as_it_comes():
    async def work():
        async with served(saying(CHUNKED + b"1\r\na\r\n", b"1\r\nb\r\n", b"0\r\n\r\n", pause_s=0.15)) as (_, url, transport):
            response = await ask(transport, url)
            clock, came = asyncio.get_running_loop().time, []
            begin = clock()
            async for piece in response.aiter_raw():
                came.append((piece, clock() - begin))
            assert [piece for piece, _ in came] == [b"a", b"b"]
            assert came[0][1] < 0.1 < came[1][1]

    run(work())


def test_a_stream_left_early_takes_its_connection_with_it():
    async def work():
        async with served(saying(*[CHUNKED + b"1\r\na\r\n"], *[b"1\r\nb\r\n"] * 400, pause_s=0.01)) as (server, url, transport):
            response = await ask(transport, url)
            await response.aclose()
            await asyncio.wait_for(server.left.wait(), 1)
            assert (await ask(transport, url)).status_code == 200
            assert server.connections == 2

    run(work())


def test_a_server_waits_for_a_slow_reader_of_its_stream():
    async def script(writer):
        writer.write(CHUNKED)
        for _ in range(400):
            writer.write(b"10000\r\n" + b"x" * 65_536 + b"\r\n")
            await writer.drain()
        writer.write(b"0\r\n\r\n")

    async def work():
        async with served(script) as (server, url, transport):
            response = await ask(transport, url)
            await asyncio.sleep(1.0)  # longer than the time-out of a read: it is the reader who is slow
            assert response.stream._unread_bytes < MAX_UNREAD_BYTES * 4
            assert len(await response.aread()) == 400 * 65_536
            await ask(transport, url)
            assert server.connections == 1

    run(work())


def test_a_request_that_is_given_up_takes_its_connection_with_it():
    async def work():
        async with served(saying(pause_s=0), connections=1) as (server, url, transport):
            asking = asyncio.create_task(ask(transport, url))
            await asyncio.sleep(0.1)
            asking.cancel()
            await asyncio.gather(asking, return_exceptions=True)
            await asyncio.wait_for(server.left.wait(), 1)
            with pytest.raises(httpx2.ReadTimeout):  # and its place is free
                await ask(transport, url)
            assert server.connections == 2

    run(work())


@pytest.mark.parametrize(
    ("pieces", "close", "failure"),
    [
        ([], False, httpx2.ReadTimeout),
        ([WHOLE[:20]], False, httpx2.ReadTimeout),
        ([WHOLE[:-1]], False, httpx2.ReadTimeout),
        ([], True, httpx2.RemoteProtocolError),
        ([WHOLE[:-1]], True, httpx2.ReadError),
        ([CHUNKED + b"5\r\nhel"], True, httpx2.ReadError),
        ([CHUNKED + b"5\r\nhel"], False, httpx2.ReadTimeout),
        ([b"SSH-2.0-OpenSSH_9.2\r\n"], False, httpx2.RemoteProtocolError),
        ([CHUNKED + b"zz\r\n"], False, httpx2.RemoteProtocolError),
        ([b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\nConnection: upgrade\r\n\r\n?"], False, httpx2.TransportError),
        ([b"HTTP/1.1 200 OK\r\n" + b"X: " + b"x" * MAX_HEAD_BYTES + b"\r\n\r\n"], False, httpx2.RemoteProtocolError),
    ],
)
def test_every_failure_has_its_name_and_leaves_nothing_behind(pieces, close, failure):
    async def work():
        async with served(saying(*pieces, close=close), connections=1) as (server, url, transport):
            for number in (1, 2):
                with pytest.raises(failure):
                    await (await ask(transport, url)).aread()
                assert server.connections == number
            await asyncio.sleep(0.05)
            assert not transport._open

    run(work())


def test_a_connection_that_the_server_closed_is_not_used_again():
    async def work():
        async with served(saying(WHOLE, close=True, pause_s=0)) as (server, url, transport):
            for number in range(1, 6):
                assert await (await ask(transport, url)).aread() == b"hello"
                await asyncio.sleep(0.05)
                assert server.connections == number

    run(work())


def test_connections_that_nobody_used_for_long_are_closed():
    async def work():
        async with served(saying(WHOLE, pause_s=0), keep_alive_s=0.2) as (server, url, transport):
            await asyncio.gather(*(ask(transport, url) for _ in range(5)))
            await asyncio.sleep(0.3)
            await ask(transport, url)
            assert (server.connections, len(transport._open)) == (6, 1)

    run(work())


def test_more_requests_than_connections_wait_and_give_up_in_time():
    async def work():
        async with served(saying(WHOLE[:-1], WHOLE[-1:], pause_s=0.1), connections=2) as (server, url, transport):
            assert len(await asyncio.gather(*(ask(transport, url) for _ in range(4)))) == 4
            assert server.connections == 2
        async with served(saying(CHUNKED), connections=1) as (server, url, transport):
            first = await ask(transport, url)
            with pytest.raises(httpx2.PoolTimeout):
                await ask(transport, url)
            await first.aclose()

    run(work())


def test_closing_breaks_off_what_is_under_way_and_what_comes_later_connects_anew():
    async def work():
        async with served(saying(WHOLE[:-1], WHOLE[-1:], pause_s=0.2)) as (server, url, transport):
            asking = asyncio.create_task(ask(transport, url))
            await asyncio.sleep(0.1)
            await transport.aclose()
            with pytest.raises(httpx2.TransportError):
                await asking
            assert await (await ask(transport, url)).aread() == b"hello"
            assert server.connections == 2

    run(work())


@pytest.mark.parametrize("pieces", [[WHOLE], [CHUNKED, b"1\r\na\r\n0\r\n\r\n"]])
def test_an_answer_that_was_read_waits_for_no_garbage_collector(pieces):
    async def work():
        async with served(saying(*pieces, pause_s=0)) as (_, url, transport):
            response = await ask(transport, url)
            await response.aread()
            answer = weakref.ref(response.stream)
            del response
            await asyncio.sleep(0)
            assert answer() is None

    gc.disable()
    try:
        run(work())
    finally:
        gc.enable()


def test_nobody_listening_and_names_that_nobody_knows_are_connect_errors():
    async def work():
        transport = Http1Transport(connections=1, keep_alive_s=1)
        for url in ("http://127.0.0.1:1/", "http://no-such-host.invalid/", "https://127.0.0.1:1/"):
            with pytest.raises(httpx2.ConnectError):
                await ask(transport, url)
        with pytest.raises(httpx2.LocalProtocolError, match="x-key"):
            await ask(transport, "http://127.0.0.1:1/", **{"x-key": "a\r\nb: c"})

    run(work())


@pytest.fixture(scope="module")
def certificate(tmp_path_factory):
    """Certificate and key of 127.0.0.1 in one file, signed by nobody but itself."""
    path = tmp_path_factory.mktemp("tls") / "own.pem"
    subject = ["-subj", "/CN=127.0.0.1", "-addext", "subjectAltName=IP:127.0.0.1", "-days", "2"]
    command = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", *subject, "-keyout", path, "-out", f"{path}.crt"]
    subprocess.run(command, check=True, capture_output=True)
    path.write_text(path.read_text() + Path(f"{path}.crt").read_text())
    return path


@pytest.mark.parametrize("known", [True, False])
def test_over_tls_only_a_server_with_a_known_certificate_is_asked(certificate, monkeypatch, known):
    if known:
        monkeypatch.setenv("SSL_CERT_FILE", str(certificate))
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(certificate)

    async def work():
        async with served(saying(WHOLE), tls=context) as (_, url, transport):
            if known:
                assert await (await ask(transport, url)).aread() == b"hello"
            else:
                with pytest.raises(httpx2.ConnectError, match="certificate"):
                    await ask(transport, url)

    run(work())
