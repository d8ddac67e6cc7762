import time

import httpx2
import pytest
from altered import altered
from fastapi import Request
from fastapi.responses import Response
from gateway_fakes import BOTH, DONE, PASSAGES, QUESTION, fake_policy, fake_retriever

BODIES = [
    *["", "null", "[]", "{}", "not json", '{"choices": []}', '{"choices": null}', '{"choices": [null]}', '{"choices": [{}]}'],
    *['{"choices": [{"text": 7, "token_ids": "x"}]}', '{"choices": [{"text": "x", "token_ids": [1.5]}]}'],
    '{"choices": [{"text": null, "token_ids": null}], "usage": "none"}',
    '{"choices": [{"text": "x", "token_ids": [1]}], "usage": {"completion_tokens": "many"}}',
    '{"choices": [{"text": "<answer> \\ud800 </answer>", "token_ids": [1]}]}',
    *(f'{{"choices": [{{"text": "<think> x", "token_ids": [{token}]}}]}}' for token in (-1, 2**32, 2**63, 10**30)),
]


def with_route(app, path, body, media_type="application/json"):
    app.router.routes = [route for route in app.router.routes if getattr(route, "path", "") != path]

    @app.api_route(path, methods=["GET", "POST"])
    async def answer(request: Request):
        return Response(body, media_type=media_type)

    return app


@pytest.mark.parametrize("body", BODIES)
@pytest.mark.parametrize("stream", [False, True])
def test_a_policy_that_answers_rubbish_is_no_500(start_gateway, body, stream):
    content = f"data: {body}\n\n" if stream else body
    policy = with_route(fake_policy([]), "/v1/completions", content, "text/event-stream" if stream else "application/json")
    client = start_gateway(policy, fake_retriever(PASSAGES))
    response = client.post("/v1/answers", json={"question": QUESTION, "stream": stream, "max_turns": 1})
    assert response.status_code in {200, 503}
    if stream and response.status_code == 200:
        assert response.text.count("event: done") + response.text.count("event: error") == 1


@pytest.mark.parametrize(
    "body",
    [
        "",
        "null",
        "[]",
        "{}",
        '{"results": []}',
        '{"results": [[{"id": 1}]], "index": {}}',
        "\ud800".encode("utf-8", "surrogatepass"),
    ],
)
def test_a_retriever_that_answers_rubbish_is_503(start_gateway, body):
    retriever = with_route(fake_retriever(PASSAGES), "/v1/retrieve", body)
    response = start_gateway(fake_policy([BOTH]), retriever).post("/v1/answers", json={"question": QUESTION})
    assert (response.status_code, response.json()["stop_reason"]) == (503, "retrieval_failed")


@pytest.mark.parametrize("path", ["/v1/models", "/v1/policy", "/tokenize"])
@pytest.mark.parametrize(
    "body", ["", "[]", '{"data": 7}', '{"layout": "upside-down", "tokens": ["a"]}', '{"data": [{"id": 5}], "context_length": -1}']
)
def test_a_policy_that_describes_itself_in_rubbish_is_not_connected_or_does_not_matter(start_gateway, path, body):
    client = start_gateway(with_route(fake_policy([DONE]), path, body), fake_retriever(PASSAGES))
    response = client.post("/v1/answers", json={"question": QUESTION})
    assert response.status_code in {200, 503}
    assert client.get("/readyz").status_code in {200, 503}


@pytest.mark.parametrize("token", [-1, 2**32, 2**63])
@pytest.mark.parametrize("asked", ["prompt", "messages"])
def test_a_policy_that_makes_no_token_ids_of_texts_is_no_500(start_gateway, token, asked):
    def impossible(body, answer):
        if len(str(body.get(asked, ""))) > 100:
            answer["tokens"] = [token]

    policy = altered(fake_policy([BOTH, DONE]), "/tokenize", impossible)
    response = start_gateway(policy, fake_retriever(PASSAGES)).post("/v1/answers", json={"question": QUESTION})
    assert (response.status_code, response.json()["stop_reason"]) == (503, "policy_failed")
    assert "token ids" in response.json()["detail"]


@pytest.mark.parametrize("limits", [{"turn_tokens": 49_990}, {"context": 300}])
def test_a_policy_without_room_for_a_turn_is_not_ready_and_says_which_settings(start_gateway, limits):
    def small(_, answer):
        answer["context_length"] = limits.get("context", answer["context_length"])

    policy = fake_policy([DONE])
    client = start_gateway(altered(policy, "/v1/policy", small), fake_retriever(PASSAGES), turn_tokens=limits.get("turn_tokens"))
    refused = client.post("/v1/answers", json={"question": QUESTION})
    for said in (client.get("/readyz").json()["checks"]["policy"], refused.json()["detail"]):
        assert "POLICY_MAX_MODEL_LEN" in said and "GATEWAY_TURN_TOKENS" in said
    assert (refused.status_code, policy.state.contexts) == (503, [])


def test_a_policy_that_breaks_off_midway_is_an_error_event(start_live):
    policy = with_route(
        fake_policy([]), "/v1/completions", 'data: {"choices": [{"text": "<think> a", "token_ids": [1]}]}\n\n', "text/event-stream"
    )
    gateway = start_live(policy, fake_retriever(PASSAGES))
    with httpx2.Client().sse(f"{gateway.url}/v1/answers", method="POST", json={"question": QUESTION, "stream": True}) as source:
        assert [sent.event for sent in source] == ["turn.started", "reasoning.delta", "error"]


def rows_missing(asked, answer):
    if len(asked["queries"]) > 1:
        answer["results"].pop()


def nameless_and_failing_together(asked, answer):
    answer["index"]["fingerprint"] = ""
    return 500 if len(asked["queries"]) > 1 else None


def more_than_asked_for(asked, answer):
    answer["results"] = [row * (asked["top_k"] + 1) for row in answer["results"]]


def of_a_later_release(asked, answer):
    answer["took_ms"] = answer["index"]["colour"] = 1
    for row in answer["results"]:
        for passage in row:
            passage["colour"] = "green"


@pytest.mark.parametrize("change", [rows_missing, nameless_and_failing_together, more_than_asked_for, of_a_later_release])
@pytest.mark.parametrize("cache", ["use", "bypass"])
def test_a_retriever_that_answers_otherwise_than_ours_is_still_used_as_far_as_it_goes(start_gateway, change, cache):
    client = start_gateway(fake_policy([BOTH, DONE]), altered(fake_retriever(PASSAGES), "/v1/retrieve", change))
    response = client.post("/v1/answers", json={"question": QUESTION, "cache": cache})
    assert response.status_code == 200, response.text
    found = [row["passages"] for row in response.json()["turns"][0]["observation"]]
    assert all(1 <= len(passages) <= 3 for passages in found)


def not_a_number(_, answer):
    answer["results"][0][0]["score"] = float("nan")


def without_bounds(_, answer):
    answer["results"][0][0]["score"] = float("inf")


@pytest.mark.parametrize("change", [not_a_number, without_bounds])
def test_a_score_that_json_cannot_spell_fails_its_sub_query_alone(start_gateway, change):
    def first_row(asked, answer):
        if "Claude Monet" in asked["queries"][0]:
            change(asked, answer)

    client = start_gateway(fake_policy([BOTH, DONE]), altered(fake_retriever(PASSAGES), "/v1/retrieve", first_row))
    answer = client.post("/v1/answers", json={"question": QUESTION}).json()
    assert [row["failed"] for row in answer["turns"][0]["observation"]] == [True, False]


def test_a_retriever_of_a_later_release_describes_more_than_we_know(start_gateway):
    def later(_, answer):
        answer["colour"] = "green"

    client = start_gateway(fake_policy([]), altered(fake_retriever(PASSAGES), "/v1/index", later))
    assert client.get("/readyz").json()["checks"]["retriever"] == "ok"


@pytest.mark.parametrize("usage", [{"completion_tokens": -5}, {"completion_tokens": True}, {}, None, "none"])
@pytest.mark.parametrize("token_ids", [True, False])
def test_tokens_are_counted_where_a_policy_does_not_say_how_many(start_gateway, usage, token_ids):
    def silent(_, answer):
        answer["usage"] = usage
        if not token_ids:
            del answer["choices"][0]["token_ids"]

    policy = altered(fake_policy([BOTH, DONE]), "/v1/completions", silent)
    answer = start_gateway(policy, fake_retriever(PASSAGES)).post("/v1/answers", json={"question": QUESTION}).json()
    assert answer["usage"]["completion_tokens"] == len(BOTH.encode()) + len(DONE.encode())


@pytest.mark.parametrize("number", [2**63, 2**64 - 1, 10**30])
def test_numbers_of_tokens_that_nobody_can_have_counted_do_not_count(start_gateway, number):
    def boasting(_, answer):
        if "usage" in answer:
            answer["usage"] = {"prompt_tokens": number, "completion_tokens": number}

    policy = altered(fake_policy([BOTH, DONE], own_routes=False, tokenizes=False), "/v1/chat/completions", boasting)
    answer = start_gateway(policy, fake_retriever(PASSAGES)).post("/v1/answers", json={"question": QUESTION}).json()
    assert (answer["stop_reason"], answer["usage"]["prompt_tokens"]) == ("answered", 0)


def with_header(app, name, value):
    """The application, each of whose answers carries this header, and no other of its name."""

    async def adding(scope, receive, send):
        async def send_with(message):
            if message["type"] == "http.response.start":
                message["headers"] = [*(pair for pair in message["headers"] if pair[0].lower() != name), (name, value)]
            await send(message)

        await app(scope, receive, send_with)

    return adding


@pytest.mark.parametrize(
    ("name", "value"),
    [
        (b"x-note", b"caf\xe9"),
        (b"x-policy-version", b"\xe9"),
        (b"content-type", b"\xff"),
        *(
            (b"retry-after", value)
            for value in (b"nan", b"inf", b"-inf", b"-5", b"1e300", b"Fri, 31 Dec 1999 23:59:59 GMT", b"\xff")
        ),
    ],
)
def test_headers_that_say_anything_are_no_500(start_live, name, value):
    policy, retriever = (
        fake_policy([DONE, DONE, *[503] * 6], streams=name != b"content-type"),
        fake_retriever(PASSAGES | {"fails": 503}),
    )
    gateway = start_live(with_header(policy, name, value), with_header(retriever, name, value))

    def ask(**more):
        return httpx2.post(f"{gateway.url}/v1/answers", json={"question": QUESTION} | more)

    for stream in (False, True):
        answer = ask(stream=stream)
        assert (answer.status_code, "Camille Pissarro" in answer.text) == (200, True)
    assert ask(deadline_s=0.4).status_code in {503, 504}
    assert "event: error" in ask(stream=True, deadline_s=0.4).text
    refused = httpx2.post(f"{gateway.url}/v1/search", json={"queries": ["fails"]})
    assert (refused.status_code, 1 <= int(refused.headers["retry-after"]) <= 3_600) == (503, True)


def test_what_nobody_expected_of_an_upstream_ends_no_looking_after_it(start_gateway):
    left, retriever = [LookupError("nobody expects this")] * 3, fake_retriever(PASSAGES)

    async def falling(scope, receive, send):
        if left:
            raise left.pop()
        await retriever(scope, receive, send)

    client = start_gateway(fake_policy([DONE]), falling)
    until = time.monotonic() + 10
    while client.get("/readyz").json()["status"] != "ready":
        assert time.monotonic() < until
        time.sleep(0.1)
    assert not left


@pytest.mark.parametrize("status", [429, 503])
@pytest.mark.parametrize("stream", [False, True])
def test_a_policy_that_says_when_to_come_again_is_given_that_time(start_gateway, status, stream):
    policy, refused = fake_policy([BOTH, DONE]), []

    async def limited(scope, receive, send):
        if scope["type"] == "http" and scope["path"] == "/v1/completions" and not refused:
            refused.append(time.monotonic())
            await Response("{}", status, {"Retry-After": "1"})(scope, receive, send)
        else:
            await policy(scope, receive, send)

    response = start_gateway(limited, fake_retriever(PASSAGES)).post("/v1/answers", json={"question": QUESTION, "stream": stream})
    assert (response.status_code, "Camille Pissarro" in response.text, "event: error" in response.text) == (200, True, False)
    assert time.monotonic() - refused[0] >= 1


def test_a_policy_that_wants_more_time_than_it_is_given_has_failed_at_once(start_gateway):
    async def limited(scope, receive, send):
        if scope["type"] == "http" and scope["path"] == "/v1/completions":
            await Response("{}", 429, {"Retry-After": "60"})(scope, receive, send)
        else:
            await policy(scope, receive, send)

    policy, started = fake_policy([BOTH, DONE]), time.monotonic()
    response = start_gateway(limited, fake_retriever(PASSAGES)).post("/v1/answers", json={"question": QUESTION})
    assert (response.status_code, response.json()["stop_reason"]) == (503, "policy_failed")
    assert time.monotonic() - started < 10
