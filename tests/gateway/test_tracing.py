import json

import httpx2
from gateway_fakes import BOTH, DONE, PASSAGES, QUESTION, fake_policy, fake_retriever

TRACE_ID, PARENT = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"


def spans_of(start_gateway, path, script=(BOTH, DONE), **settings):
    """The spans of one answer, written when the gateway stops, and the headers that the upstreams saw."""
    seen = []

    def recorded(app):
        async def record(scope, receive, send):
            if scope["type"] == "http":
                seen.append((scope["path"], dict(scope["headers"]).get(b"traceparent", b"").decode()))
            await app(scope, receive, send)

        return record

    client = start_gateway(recorded(fake_policy(script)), recorded(fake_retriever(PASSAGES)), trace_file=path, **settings)
    headers = {"traceparent": f"00-{TRACE_ID}-{PARENT}-01"}
    client.post("/v1/answers", json={"question": QUESTION}, headers=headers)
    client.__exit__(None, None, None)
    spans = [json.loads(line) for line in path.read_text().splitlines()]
    return [span for span in spans if TRACE_ID in span["context"]["trace_id"]], seen


def test_one_trace_shows_turns_calls_and_sub_queries_side_by_side(start_gateway, tmp_path):
    spans, seen = spans_of(start_gateway, tmp_path / "t.jsonl")
    by_id = {span["context"]["span_id"]: span for span in spans}
    names = [span["name"] for span in spans]
    assert names.count("turn") == 2
    assert names.count("policy POST /v1/completions") == 2
    assert names.count("sub_query") == 2

    def parent(span):
        return by_id.get(span["parent_id"], {}).get("name")

    by_name = {span["name"]: span for span in spans}
    assert by_name["POST /v1/answers"]["parent_id"] == f"0x{PARENT}"
    assert {parent(span) for span in spans if span["name"] == "turn"} == {"POST /v1/answers"}
    assert parent(by_name["search"]) == "turn"
    assert {parent(span) for span in spans if span["name"] == "sub_query"} == {"search"}
    assert parent(by_name["retriever POST /v1/retrieve"]) == "search"
    assert {parent(span) for span in spans if span["name"] == "policy POST /v1/completions"} == {"turn"}
    first, second = [span for span in spans if span["name"] == "sub_query"]
    assert first["start_time"] == second["start_time"]
    told = [value for path, value in seen if path in {"/v1/completions", "/v1/retrieve"}]
    assert len(told) == 3
    assert all(TRACE_ID in value for value in told)


def test_texts_stay_out_unless_asked_for(start_gateway, tmp_path):
    spans, _ = spans_of(start_gateway, tmp_path / "a.jsonl")
    assert "Monet" not in json.dumps(spans)
    spans, _ = spans_of(start_gateway, tmp_path / "b.jsonl", trace_text=True)
    assert "When was Claude Monet born?" in json.dumps(spans)


def test_streams_and_failures_are_traced_too(start_live, tmp_path):
    path = tmp_path / "t.jsonl"
    gateway = start_live(fake_policy([BOTH, 500]), fake_retriever(PASSAGES), trace_file=path)
    with httpx2.Client().sse(f"{gateway.url}/v1/answers", method="POST", json={"question": QUESTION, "stream": True}) as source:
        list(source)
    gateway.stop()
    spans = [json.loads(line) for line in path.read_text().splitlines()]
    assert "policy_failed" in [span["attributes"].get("rollout.stop_reason") for span in spans]
    assert "Monet" not in path.read_text()


def test_logs_carry_the_trace_and_no_text(start_gateway, tmp_path, capsys):
    client = start_gateway(fake_policy([BOTH, DONE]), fake_retriever(PASSAGES), trace_file=tmp_path / "t.jsonl")
    client.post("/v1/answers", json={"question": QUESTION}, headers={"traceparent": f"00-{TRACE_ID}-{PARENT}-01"})
    printed = "".join(capsys.readouterr())
    assert TRACE_ID in printed
    assert "Monet" not in printed
