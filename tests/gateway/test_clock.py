"""The gateway's wall clock jumps: rows stay what they are, expire by Redis' own clock, and nothing hangs."""

import hashlib
import json
from datetime import UTC, datetime, timedelta

import pytest
import redis
import time_machine
from gateway_fakes import BOTH, DONE, PASSAGES, QUESTION, fake_policy, fake_retriever

NOW = datetime.now(UTC)
JUMPS = [timedelta(days=-3650), timedelta(hours=-1), timedelta(days=2), timedelta(days=3650)]


@pytest.mark.parametrize("jump", JUMPS)
def test_a_jump_of_the_clock_neither_loses_nor_keeps_rows(start_gateway, valkey, jump):
    retriever = fake_retriever(PASSAGES)
    client = start_gateway(fake_policy([BOTH, DONE] * 3), retriever, cache_ttl_s=3_600)
    body = {"question": QUESTION, "deadline_s": 20}
    assert client.post("/v1/answers", json=body).json()["usage"]["cache_hits"] == 0
    with time_machine.travel(NOW + jump, tick=True):
        jumped = client.post("/v1/answers", json=body)
        assert (jumped.status_code, jumped.json()["usage"]["cache_hits"]) == (200, 2)
        assert jumped.json()["timings"]["total_ms"] < 20_000
    assert client.post("/v1/answers", json=body).json()["usage"]["cache_hits"] == 2
    assert len(retriever.state.batches) == 1
    kept = redis.Redis(unix_socket_path=str(valkey.socket))
    assert all(0 < kept.ttl(key) <= 3_960 for key in kept.scan_iter("parallelsearch:*"))
    kept.close()


@pytest.mark.parametrize("jump", JUMPS)
def test_limits_of_a_key_go_by_a_clock_that_does_not_jump(start_gateway, tmp_path, jump):
    keys = tmp_path / "keys.json"
    keys.write_text(json.dumps([{"name": "a", "sha256": hashlib.sha256(b"key").hexdigest(), "requests_per_minute": 2}]))
    client = start_gateway(fake_policy([]), fake_retriever(PASSAGES), api_keys_file=keys)
    headers = {"authorization": "Bearer key"}

    def ask():
        return client.post("/v1/search", json={"queries": ["a"]}, headers=headers).status_code

    assert [ask(), ask(), ask()] == [200, 200, 429]
    with time_machine.travel(NOW + jump, tick=True):
        assert ask() == 429
