"""A gateway on a real port that answers what it is told, in the shapes of the schemas; requests are kept."""

import json
import threading
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from parallelsearch.rollout.types import StopReason
from parallelsearch.schemas.answers import (
    AnswerActionModel,
    Citation,
    ObservationModel,
    SearchActionModel,
    TimingsModel,
    TrajectoryModel,
    TurnModel,
    TurnTimingsModel,
    UsageModel,
)
from parallelsearch.schemas.retrieval import PassageModel

QUERIES = ["When was Claude Monet born?", "When was Camille Pissarro born?"]


def trajectory(*, answer="Camille Pissarro", stop_reason=StopReason.ANSWERED, title="Claude Monet", cached=False, failed=False):
    """One round of two sub-queries, then the answer."""
    found = [
        ObservationModel(
            query=query,
            passages=[] if failed else [PassageModel(id=f"p-{number}", title=title, text="…", score=0.83)],
            cached=cached,
            failed=failed,
            latency_ms=12.0,
        )
        for number, query in enumerate(QUERIES)
    ]
    timings = TurnTimingsModel(policy_ms=2100.0, search_ms=15.0)
    search = SearchActionModel(queries=QUERIES, raw_queries=QUERIES)
    turns = [TurnModel(index=0, reasoning="I need both dates.", action=search, observation=found, timings=timings)]
    if answer is not None:
        turns.append(TurnModel(index=1, reasoning="1830 is first.", action=AnswerActionModel(text=answer), timings=timings))
    return TrajectoryModel(
        id="t-1",
        question="Who is older, Claude Monet or Camille Pissarro?",
        answer=answer,
        stop_reason=stop_reason,
        turns=turns,
        usage=UsageModel(llm_calls=2, search_rounds=1, sub_queries=2, cache_hits=2 if cached else 0),
        timings=TimingsModel(total_ms=4300.0, policy_ms=4200.0, search_ms=15.0, overhead_ms=3.0),
        citations=[Citation(passage_id="p-1", title="Camille Pissarro", turn=0, query=QUERIES[1])] if answer else [],
    )


def problem(status, code, detail, **extensions):
    return status, {
        "type": f"urn:parallelsearch:problem:{code}",
        "status": status,
        "detail": detail,
        "request_id": "r-42",
    } | extensions


class StandIn:
    def __init__(self, url):
        self.url, self.answer, self.seen = url, (200, {}), []


@contextmanager
def gateway_stand_in():
    class Handler(BaseHTTPRequestHandler):
        def do_POST(self):
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            stand_in.seen.append((self.path, body, dict(self.headers)))
            status, answer = stand_in.answer
            payload = answer if isinstance(answer, bytes) else json.dumps(answer).encode()
            self.send_response(status)
            self.send_header("Content-Length", str(len(payload)))
            self.end_headers()
            self.wfile.write(payload)

        def log_message(self, *_):
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    stand_in = StandIn(f"http://127.0.0.1:{server.server_port}")
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield stand_in
    finally:
        server.shutdown()
        server.server_close()
