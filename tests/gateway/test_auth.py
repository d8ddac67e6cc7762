import json
import os
import subprocess
import sys
import threading
import time

import anyio
import httpx2
import openai
import pytest
from gateway_fakes import DONE, PASSAGES, QUESTION, fake_policy, fake_retriever
from pydantic import ValidationError

from gateway.auth import digest, load_keys, new_key
from gateway.keys import add_key, main
from gateway.settings import GatewaySettings
from parallelsearch.errors import ConfigurationError
from servicekit.settings import load


@pytest.fixture
def keys_file(tmp_path):
    """`keys_file(**limits)` writes a file with one key and gives the key and the file."""

    def write(**limits):
        token, key = new_key("team-a")
        path = tmp_path / "keys.json"
        path.write_text(json.dumps([key.model_copy(update=limits).model_dump()]))
        return token, path

    return write


def bearer(token):
    return {"authorization": f"Bearer {token}"}


def ask(client, token=None):
    return client.post("/v1/answers", json={"question": QUESTION}, headers=bearer(token) if token else {})


def test_without_keys_loopback_is_open(start_gateway):
    assert ask(start_gateway(fake_policy([DONE]), fake_retriever(PASSAGES))).status_code == 200


@pytest.mark.parametrize("header", [None, "Bearer nope", "Bearer ", "Basic x", "nope", "Bearer ps-\u00e9", "x" * 5_000])
def test_where_there_are_keys_others_are_401(start_gateway, keys_file, header):
    _, path = keys_file()
    client = start_gateway(fake_policy([]), fake_retriever(PASSAGES), api_keys_file=path)
    headers = {} if header is None else {"authorization": header.encode("utf-8")}
    for route, body in [("answers", {"question": "q"}), ("search", {"queries": ["q"]})]:
        refused = client.post(f"/v1/{route}", json=body, headers=headers)
        assert (refused.status_code, refused.headers["www-authenticate"]) == (401, "Bearer")
        assert refused.json()["type"].endswith("unauthorized")
    chat = {"model": "parallelsearch", "messages": [{"role": "user", "content": "q"}]}
    refused = client.post("/v1/chat/completions", json=chat, headers=headers)
    assert (refused.status_code, refused.json()["error"]["type"]) == (401, "authentication_error")
    assert refused.headers["www-authenticate"] == "Bearer"
    assert client.get("/v1/models", headers=headers).status_code == 401
    assert client.get("/healthz").status_code == 200


def test_a_key_lets_in_is_counted_by_its_name_and_appears_nowhere(start_gateway, keys_file, capsys):
    token, path = keys_file()
    client = start_gateway(fake_policy([DONE, DONE]), fake_retriever(PASSAGES), api_keys_file=path)
    assert ask(client, token).status_code == 200
    metrics = client.get("/metrics").text
    assert 'parallelsearch_calls_total{key="team-a"}' in metrics
    printed = capsys.readouterr()
    for text in (metrics, printed.out, printed.err, path.read_text()):
        assert token not in text


def test_the_official_client_sends_its_key(start_live, keys_file):
    token, path = keys_file()
    gateway = start_live(fake_policy([DONE]), fake_retriever(PASSAGES), api_keys_file=path)
    with pytest.raises(openai.AuthenticationError):
        openai.OpenAI(base_url=f"{gateway.url}/v1", api_key="other").models.list()
    assert openai.OpenAI(base_url=f"{gateway.url}/v1", api_key=token).models.list().data


def test_the_admin_token_is_let_in_without_limits(start_gateway, keys_file):
    _, path = keys_file()
    client = start_gateway(fake_policy([DONE]), fake_retriever(PASSAGES), api_keys_file=path, admin_token="root")
    assert ask(client, "root").status_code == 200


def test_auth_off_ignores_keys(start_gateway, keys_file):
    _, path = keys_file()
    client = start_gateway(fake_policy([DONE]), fake_retriever(PASSAGES), api_keys_file=path, auth="off")
    assert ask(client).status_code == 200


@pytest.mark.parametrize("redis", [True, False])
def test_too_many_requests_a_minute_are_429_with_the_time_to_wait(start_gateway, keys_file, redis):
    token, path = keys_file(requests_per_minute=3)
    url = {} if redis else {"redis_url": None}
    client = start_gateway(fake_policy([DONE] * 9), fake_retriever(PASSAGES), api_keys_file=path, **url)
    statuses = [ask(client, token).status_code for _ in range(4)]
    assert statuses == [200, 200, 200, 429]
    refused = ask(client, token)
    assert 1 <= int(refused.headers["retry-after"]) <= 20
    assert refused.json()["type"].endswith("limit-exceeded")
    assert 'parallelsearch_refused_total{key="team-a",limit="rate"}' in client.get("/metrics").text


def test_a_rate_refills(start_gateway, keys_file):
    token, path = keys_file(requests_per_minute=60)
    client = start_gateway(fake_policy([DONE] * 99), fake_retriever(PASSAGES), api_keys_file=path)
    while ask(client, token).status_code == 200:
        pass
    time.sleep(1.1)
    assert ask(client, token).status_code == 200


@pytest.mark.parametrize("redis", [True, False])
def test_too_many_at_a_time_are_429_and_places_are_given_back(start_live, keys_file, redis):
    token, path = keys_file(concurrent=1)
    inner = fake_policy([DONE] * 4)

    async def slow(scope, receive, send):
        if scope["path"] == "/v1/completions":
            await anyio.sleep(0.6)
        await inner(scope, receive, send)

    url = {} if redis else {"redis_url": None}
    gateway = start_live(slow, fake_retriever(PASSAGES), api_keys_file=path, **url)
    for stream in (False, True):
        body = {"question": QUESTION, "stream": stream}
        first = threading.Thread(
            target=httpx2.post, args=(f"{gateway.url}/v1/answers",), kwargs={"json": body, "headers": bearer(token)}
        )
        first.start()
        time.sleep(0.25)
        refused = httpx2.post(f"{gateway.url}/v1/answers", json=body, headers=bearer(token))
        first.join()
        assert (refused.status_code, refused.headers["retry-after"]) == (429, "1")
        time.sleep(0.1)
    assert httpx2.post(f"{gateway.url}/v1/search", json={"queries": []}, headers=bearer(token)).status_code == 200


def test_limits_hold_across_replicas(start_gateway, keys_file):
    token, path = keys_file(requests_per_minute=2)
    replicas = [start_gateway(fake_policy([DONE] * 9), fake_retriever(PASSAGES), api_keys_file=path) for _ in range(2)]
    assert [ask(replicas[turn % 2], token).status_code for turn in range(4)] == [200, 200, 429, 429]


def test_when_redis_dies_each_process_counts_for_itself(start_gateway, keys_file, valkey):
    token, path = keys_file(requests_per_minute=2)
    client = start_gateway(fake_policy([DONE] * 9), fake_retriever(PASSAGES), api_keys_file=path)
    valkey.kill()
    assert [ask(client, token).status_code for _ in range(3)] == [200, 200, 429]


def test_beyond_loopback_without_keys_needs_auth_off(keys_file):
    _, path = keys_file()
    for host in ("0.0.0.0", "::", "192.168.1.2", "example.org"):
        with pytest.raises(ValidationError, match="AUTH=off"):
            GatewaySettings(host=host)
        assert GatewaySettings(host=host, auth="off").host == host
        assert GatewaySettings(host=host, api_keys_file=path).host == host
    assert GatewaySettings(host="::1").host == "::1"


def test_the_process_says_what_to_do_and_exits(tmp_path):
    def start(**env):
        command = [sys.executable, "-m", "gateway"]
        return subprocess.run(command, env=os.environ | env, capture_output=True, text=True, timeout=60)

    open_ = start(GATEWAY_HOST="0.0.0.0")
    assert (open_.returncode, "AUTH=off" in open_.stderr) == (1, True)
    missing = start(GATEWAY_API_KEYS_FILE=str(tmp_path / "none.json"))
    assert (missing.returncode, missing.stderr.count("\n")) == (1, 1)
    assert "none.json cannot be read" in missing.stderr


REDIS_OPTIONS = [
    f"redis://:secret@a/0?{option}" for option in ("timeout=1", "socket_timeout=secret", "db=x", "health_check_interval=x")
]
WRONG = {
    "REDIS_URL": ["localhost:6379", "redis://:secret@127.0.0.1:99999/0", "http://127.0.0.1:6379", "unix://", *REDIS_OPTIONS],
    "RETRIEVER_URL": ["127.0.0.1:8001", "http://", "ftp://a", "http://a:0"],
    "POLICY_BASE_URL": ["http://a:1/v1,b", "a", ",", "http://a:b"],
    "POLICY_API_KEY": ["secret\u00fc", "secret\nx"],
    "TRAINER_URL": ["x", "//a"],
    "OTEL_EXPORTER_OTLP_ENDPOINT": ["collector:4318"],
    "GATEWAY_CORS_ORIGINS": ["http://a", "[1]"],
}


@pytest.mark.parametrize(("variable", "value"), [(name, value) for name, values in WRONG.items() for value in values])
def test_a_setting_that_cannot_be_used_is_one_line_that_names_it_and_repeats_nothing(monkeypatch, variable, value):
    monkeypatch.setenv(variable, value)
    with pytest.raises(SystemExit) as exit_:
        load(GatewaySettings)
    said = str(exit_.value.code)
    assert said.startswith(f"configuration: {variable}")
    assert "\n" not in said
    assert "secret" not in said


@pytest.mark.parametrize(
    ("variable", "value"),
    [
        ("REDIS_URL", "unix:///run/valkey.sock?db=1"),
        ("REDIS_URL", "rediss://:secret@cache.example.org"),
        ("POLICY_BASE_URL", "http://a:1/v1, https://[::1]:2/v1,"),
        ("GATEWAY_CORS_ORIGINS", '["http://a"]'),
    ],
)
def test_every_form_of_address_is_taken(monkeypatch, variable, value):
    monkeypatch.setenv(variable, value)
    load(GatewaySettings)


@pytest.mark.parametrize(("auth", "missing"), [("on", "there is no GATEWAY_API_KEYS_FILE"), ("off", "AUTH=off asks for none")])
@pytest.mark.parametrize("limit", ["GATEWAY_KEY_CONCURRENT", "GATEWAY_KEY_REQUESTS_PER_MINUTE"])
def test_limits_of_keys_are_refused_where_nobody_is_asked_for_one(monkeypatch, tmp_path, limit, auth, missing):
    monkeypatch.setenv("AUTH", auth)
    monkeypatch.setenv(limit, "2")
    with pytest.raises(SystemExit, match=rf"{limit}: .*{missing}"):
        load(GatewaySettings)
    monkeypatch.setenv("AUTH", "on")
    monkeypatch.setenv("GATEWAY_API_KEYS_FILE", str(tmp_path / "keys.json"))
    load(GatewaySettings)


@pytest.mark.parametrize("name", ["admin", "anonymous", "Bad Name", ""])
def test_no_key_has_the_name_of_somebody_else(tmp_path, name):
    path = tmp_path / "keys.json"
    made = subprocess.run([sys.executable, "-m", "gateway.keys", name, str(path)], capture_output=True, text=True, check=False)
    assert (made.returncode, made.stderr.startswith("NAME: "), made.stderr.count("\n")) == (1, True, 1)
    path.write_text(json.dumps([{"name": name, "sha256": digest("a")}]))
    with pytest.raises(ConfigurationError, match="name"):
        load_keys(path)


def test_a_key_under_two_names_is_refused(tmp_path):
    path = tmp_path / "keys.json"
    path.write_text(json.dumps([{"name": name, "sha256": digest("a")} for name in ("a", "b")]))
    with pytest.raises(ConfigurationError, match="under two names"):
        load_keys(path)


def test_a_key_is_made_once_and_kept_as_a_hash(tmp_path):
    path = tmp_path / "keys.json"
    tokens = [add_key(name, path) for name in ("a", "b", "a")]
    entries = json.loads(path.read_text())
    assert [entry["name"] for entry in entries] == ["b", "a"]
    assert entries[1]["sha256"] == digest(tokens[2])
    assert len(set(tokens)) == 3
    assert path.stat().st_mode & 0o077 == 0


@pytest.mark.parametrize("place", ["none/keys.json", "file/keys.json"])
def test_a_keys_file_that_cannot_be_written_is_named(tmp_path, monkeypatch, place):
    (tmp_path / "file").touch()
    monkeypatch.setattr(sys, "argv", ["keys", "team", str(tmp_path / place)])
    with pytest.raises(SystemExit, match=r"^FILE: .*keys\.json cannot be written: "):
        main()


@pytest.mark.parametrize("content_type", ["text/plain", "application/x-www-form-urlencoded", "multipart/form-data", None])
@pytest.mark.parametrize("path", ["/v1/answers", "/v1/search"])
def test_a_body_that_a_page_of_another_origin_could_send_unasked_is_refused(start_gateway, path, content_type):
    headers = {"content-type": content_type} if content_type else {}
    response = start_gateway(fake_policy([]), fake_retriever(PASSAGES)).post(path, content=b'{"queries": []}', headers=headers)
    assert (response.status_code, response.json()["detail"]) == (422, "body: must be a JSON object, sent as application/json")


def test_other_origins_are_not_let_in_unless_named(start_gateway):
    asked = {"origin": "https://app.example", "access-control-request-method": "POST"}
    closed = start_gateway(fake_policy([]), fake_retriever(PASSAGES))
    assert "access-control-allow-origin" not in closed.options("/v1/answers", headers=asked).headers
    named = start_gateway(fake_policy([]), fake_retriever(PASSAGES), cors_origins=["https://app.example"])
    assert named.options("/v1/answers", headers=asked).headers["access-control-allow-origin"] == "https://app.example"


def test_answers_carry_security_headers(start_gateway):
    headers = start_gateway(fake_policy([]), fake_retriever(PASSAGES)).get("/healthz").headers
    assert (headers["x-content-type-options"], headers["x-frame-options"]) == ("nosniff", "DENY")
    assert "frame-ancestors 'none'" in headers["content-security-policy"]
