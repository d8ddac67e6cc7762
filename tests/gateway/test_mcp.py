import asyncio
import json

import httpx2
import pytest
from gateway_fakes import BOTH, DONE, PASSAGES, QUESTION, fake_policy, fake_retriever
from mcp import Client
from mcp.client.streamable_http import streamable_http_client

from gateway.auth import new_key

INITIALIZE = {"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": {}}


def talk(gateway, conversation, headers=None):
    """What `conversation(client)` returns, with the official client."""

    async def main():
        async with httpx2.AsyncClient(headers=headers or {}, timeout=20) as http:
            transport = streamable_http_client(f"{gateway.url}/mcp", http_client=http)
            async with Client(transport) as client:
                return await conversation(client)

    return asyncio.run(asyncio.wait_for(main(), 30))


def test_both_tools_are_listed_with_their_arguments(start_live):
    gateway = start_live(fake_policy([]), fake_retriever(PASSAGES))
    listed = talk(gateway, lambda client: client.list_tools())
    tools = {tool.name: tool for tool in listed.tools}
    assert set(tools) == {"search", "answer"}
    assert set(tools["search"].input_schema["properties"]) == {"queries", "top_k", "index"}
    assert tools["answer"].input_schema["required"] == ["question"]


def test_answer_answers_with_its_sources(start_live):
    gateway = start_live(fake_policy([BOTH, DONE]), fake_retriever(PASSAGES))
    called = talk(gateway, lambda client: client.call_tool("answer", {"question": QUESTION}))
    assert not called.is_error
    assert called.structured_content["answer"] == "Camille Pissarro"
    assert [citation["passage_id"] for citation in called.structured_content["citations"]] == ["monet-1", "pissarro-1"]
    assert called.structured_content["sub_queries"] == list(PASSAGES)


def test_search_searches_all_at_once(start_live):
    retriever = fake_retriever(PASSAGES)
    gateway = start_live(fake_policy([]), retriever)
    called = talk(gateway, lambda client: client.call_tool("search", {"queries": list(PASSAGES), "top_k": 1}))
    assert [row["passages"][0]["title"] for row in called.structured_content["results"]] == ["Claude Monet", "Camille Pissarro"]
    assert retriever.state.batches == [list(PASSAGES)]


@pytest.mark.parametrize(
    ("tool", "arguments"),
    [
        ("answer", {}),
        ("answer", {"question": " "}),
        ("search", {"queries": "x" * 9}),
        ("search", {"queries": [], "top_k": 0}),
        ("nope", {}),
    ],
)
def test_bad_calls_are_errors_that_the_model_can_read(start_live, tool, arguments):
    gateway = start_live(fake_policy([]), fake_retriever(PASSAGES))

    async def call(client):
        try:
            called = await client.call_tool(tool, arguments)
        except Exception as error:  # noqa: BLE001  # the SDK's own protocol error
            return str(error)
        assert called.is_error
        return called.content[0].text

    assert talk(gateway, call)


@pytest.mark.parametrize(
    ("tool", "arguments"),
    [
        ("answer", {}),
        ("answer", {"question": " "}),
        ("answer", {"question": "x" * 9_000}),
        ("answer", {"question": "a\0b"}),
        ("answer", {"question": QUESTION, "mode": "sideways"}),
        ("answer", {"question": 7, "mode": 7}),
        ("answer", {"question": QUESTION, "index": "nope"}),
        ("search", {}),
        ("search", {"queries": "x" * 9}),
        ("search", {"queries": ["a", 7]}),
        ("search", {"queries": [], "top_k": 0}),
        ("search", {"queries": ["a"], "index": "nope"}),
    ],
)
def test_what_is_wrong_with_a_call_is_said_as_the_http_api_says_it(start_live, tool, arguments):
    gateway = start_live(fake_policy([]), fake_retriever(PASSAGES))
    refused = httpx2.post(f"{gateway.url}/v1/{'answers' if tool == 'answer' else tool}", json=arguments)
    called = talk(gateway, lambda client: client.call_tool(tool, arguments))
    assert (refused.status_code, called.is_error) == (422, True)
    assert called.content[0].text == refused.json()["detail"]


def test_a_rollout_that_fails_is_a_tool_error_and_not_an_answer(start_live):
    gateway = start_live(fake_policy([500]), fake_retriever(PASSAGES))
    called = talk(gateway, lambda client: client.call_tool("answer", {"question": QUESTION}))
    assert called.is_error
    assert "policy" in called.content[0].text


def test_a_client_that_listens_for_what_never_comes_holds_no_place(start_live, tmp_path):
    token, key = new_key("a")
    path = tmp_path / "keys.json"
    path.write_text(json.dumps([key.model_dump() | {"concurrent": 1}]))
    gateway = start_live(fake_policy([]), fake_retriever(PASSAGES), api_keys_file=path)
    headers = {"authorization": f"Bearer {token}", "accept": "application/json, text/event-stream"}
    for method in ("GET", "DELETE"):
        with httpx2.stream(method, f"{gateway.url}/mcp", headers=headers) as answered:
            assert (answered.status_code, answered.headers["allow"]) == (405, "POST")
            assert httpx2.post(f"{gateway.url}/mcp", json=INITIALIZE, headers=headers).status_code == 200


def test_keys_guard_it_too(start_live, tmp_path):
    token, key = new_key("a")
    path = tmp_path / "keys.json"
    path.write_text(json.dumps([key.model_dump()]))
    gateway = start_live(fake_policy([]), fake_retriever(PASSAGES), api_keys_file=path)
    refused = httpx2.post(f"{gateway.url}/mcp", json=INITIALIZE)
    assert (refused.status_code, refused.headers["content-type"]) == (401, "application/problem+json")
    assert talk(gateway, lambda client: client.list_tools(), {"authorization": f"Bearer {token}"}).tools
