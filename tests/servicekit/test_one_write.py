"""What goes over the wire, read from a bare socket."""

import asyncio
import socket

import pytest
from live import live

from servicekit.one_write import OneWriteProtocol

BODY = b"x" * 1_000


async def app(scope, receive, send):
    if scope["type"] != "http":
        return
    while (await receive()).get("more_body"):
        pass
    streamed = scope["path"] == "/stream"
    headers = [] if streamed else [(b"content-length", str(len(BODY)).encode())]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    if streamed:
        await asyncio.sleep(0.3)
    await send({"type": "http.response.body", "body": BODY})


@pytest.fixture(scope="module")
def connect():
    with live(app, http=OneWriteProtocol, lifespan="off") as server:
        yield lambda: socket.create_connection(("127.0.0.1", server.port), timeout=5)


def request(method, path="/", *headers):
    return "\r\n".join([f"{method} {path} HTTP/1.1", "Host: x", *headers, "\r\n"]).encode()


def whole(sock):
    found = b""
    while part := sock.recv(65_536):
        found += part
    return found


def test_head_and_body_come_at_once_and_the_connection_goes_on(connect):
    with connect() as sock:
        for _ in range(20):
            sock.sendall(request("GET"))
            head, _, body = sock.recv(65_536).partition(b"\r\n\r\n")
            assert head.startswith(b"HTTP/1.1 200 OK")
            assert body == BODY


def test_the_head_of_a_stream_does_not_wait_for_its_first_piece(connect):
    with connect() as sock:
        sock.sendall(request("GET", "/stream", "Connection: close"))
        head, _, body = sock.recv(65_536).partition(b"\r\n\r\n")
        assert (b"chunked" in head, body) == (True, b"")
        assert whole(sock) == b"3e8\r\n" + BODY + b"\r\n0\r\n\r\n"


@pytest.mark.parametrize(("method", "body"), [("HEAD", b""), ("GET", BODY)])
def test_an_answer_after_which_the_connection_closes_is_whole(connect, method, body):
    with connect() as sock:
        sock.sendall(request(method, "/", "Connection: close"))
        head, _, found = whole(sock).partition(b"\r\n\r\n")
        assert (b"content-length: 1000" in head, found) == (True, body)


def test_answers_to_requests_sent_together_come_in_order(connect):
    with connect() as sock:
        sock.sendall(request("HEAD") + request("GET") + request("HEAD", "/", "Connection: close"))
        answers = whole(sock).split(b"HTTP/1.1 200 OK")
        assert [answer.count(b"x" * 1_000) for answer in answers] == [0, 0, 1, 0]


def test_a_client_is_told_to_go_on_before_it_sends_its_body(connect):
    with connect() as sock:
        sock.sendall(request("POST", "/", "Expect: 100-continue", "Content-Length: 2", "Connection: close"))
        assert sock.recv(65_536) == b"HTTP/1.1 100 Continue\r\n\r\n"
        sock.sendall(b"hi")
        assert whole(sock).endswith(b"\r\n\r\n" + BODY)
