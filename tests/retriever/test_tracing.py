from contextlib import ExitStack

import httpx2
from gateway_fakes import BOTH, DONE, QUESTION, fake_policy
from live import live
from traces import assert_one_trace_holds_all, read_spans, whole_traces

from gateway.app import create_app as create_gateway
from gateway.settings import GatewaySettings
from retriever.app import create_app, open_retriever
from retriever.settings import RetrieverSettings
from servicekit.tracing import TraceMiddleware, Tracing


def test_one_exported_trace_shows_gateway_retriever_and_policy(index_folder, tmp_path):
    path = tmp_path / "traces.jsonl"
    settings = RetrieverSettings(index=index_folder, trace_file=path)
    policy, tracing = fake_policy([BOTH, DONE]), Tracing("policy", file=path)
    policy.add_middleware(TraceMiddleware, tracer=tracing.tracer)
    with ExitStack() as stack:
        policy_url = stack.enter_context(live(policy)).url
        retriever_url = stack.enter_context(live(create_app(settings, open_retriever(settings)))).url
        urls = {"policy_base_url": f"{policy_url}/v1", "retriever_url": retriever_url, "redis_url": None}
        gateway = stack.enter_context(live(create_gateway(GatewaySettings(**urls, trace_file=path))))
        assert httpx2.post(f"{gateway.url}/v1/answers", json={"question": QUESTION}).json()["answer"] == "Camille Pissarro"
    tracing.close()
    spans = read_spans(path)
    assert_one_trace_holds_all(spans, sub_queries=2, llm_calls=2)
    answer = next(span for span in spans if span.name == "POST /v1/answers")
    whole = [span for span in spans if span.trace == answer.trace]
    assert whole_traces(spans) == whole
    for late in (span for span in whole if span is answer or span.service != "gateway"):
        assert whole_traces([span for span in spans if span is not late]) == []


def test_probes_are_not_traced(index_folder, tmp_path):
    path = tmp_path / "traces.jsonl"
    settings = RetrieverSettings(index=index_folder, trace_file=path)
    with live(create_app(settings, open_retriever(settings))) as retriever:
        for probed in ("/readyz", "/metrics", "/healthz", "/v1/index"):
            httpx2.get(f"{retriever.url}{probed}")
    assert [span.name for span in read_spans(path)] == ["GET /v1/index"]
