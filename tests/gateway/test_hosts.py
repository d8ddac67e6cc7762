"""Without keys, a gateway on loopback is for those who ask this machine by its own names: a page's name may point here too."""

import pytest
from gateway_fakes import DONE, PASSAGES, QUESTION, fake_policy, fake_retriever

from gateway.auth import new_key

PATHS = [("GET", "/v1/models"), ("POST", "/v1/answers"), ("GET", "/v1/answers"), ("POST", "/v1/search"), ("GET", "/v1/indexes"),
         ("GET", "/v1/training-runs"), ("POST", "/mcp"), ("POST", "/v1/chat/completions")]  # fmt: skip


@pytest.mark.parametrize(("method", "path"), PATHS)
def test_a_name_of_another_is_refused_in_words_on_every_route(start_gateway, method, path):
    client = start_gateway(fake_policy([]), fake_retriever(PASSAGES))
    refused = client.request(method, path, headers={"host": "evil.example"}, json={} if method == "POST" else None)
    assert refused.status_code == 403
    assert "evil.example" in refused.text and "GATEWAY_ALLOWED_HOSTS" in refused.text
    assert client.get("/healthz", headers={"host": "evil.example"}).status_code == 200


def test_whoever_has_a_token_and_a_gateway_that_is_set_up_for_it_may_ask_by_any_name(start_gateway, tmp_path):
    body, by_name = {"question": QUESTION}, {"host": "proxy.example"}
    named = start_gateway(fake_policy([DONE]), fake_retriever(PASSAGES), allowed_hosts=["proxy.example"])
    assert named.post("/v1/answers", json=body, headers=by_name).status_code == 200
    admin = start_gateway(fake_policy([DONE]), fake_retriever(PASSAGES), admin_token="a-token-of-the-admin")
    asked = by_name | {"authorization": "Bearer a-token-of-the-admin"}
    assert admin.post("/v1/answers", json=body, headers=asked).status_code == 200
    token, key = new_key("team")
    (tmp_path / "keys.json").write_text(f"[{key.model_dump_json()}]")
    keyed = start_gateway(fake_policy([DONE]), fake_retriever(PASSAGES), api_keys_file=tmp_path / "keys.json")
    assert keyed.post("/v1/answers", json=body, headers=by_name | {"authorization": f"Bearer {token}"}).status_code == 200


def test_a_proxy_passes_the_model_context_protocol_on_by_its_own_name_too(start_gateway, tmp_path):
    token, key = new_key("team")
    (tmp_path / "keys.json").write_text(f"[{key.model_dump_json()}]")
    keyed = start_gateway(fake_policy([]), fake_retriever(PASSAGES), api_keys_file=tmp_path / "keys.json")
    named = start_gateway(fake_policy([]), fake_retriever(PASSAGES), allowed_hosts=["proxy.example"])
    listing = {"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": {}}
    asked = {"host": "proxy.example", "origin": "https://proxy.example", "accept": "application/json, text/event-stream"}
    for client, known in ((keyed, {"authorization": f"Bearer {token}"}), (named, {})):
        assert client.post("/mcp", json=listing, headers=asked | known).status_code == 200
    assert keyed.post("/mcp", content="{}", headers=asked | {"content-type": "text/plain"}).status_code == 401
    assert named.post("/mcp", content="{}", headers=asked | {"content-type": "text/plain"}).status_code == 400


def test_beyond_loopback_nobody_knows_the_names(start_gateway):
    client = start_gateway(fake_policy([DONE]), fake_retriever(PASSAGES), host="0.0.0.0", auth="off")
    assert client.post("/v1/answers", json={"question": QUESTION}, headers={"host": "any.example"}).status_code == 200
