import httpx2
import openai
import pytest
from gateway_fakes import BOTH, DONE, PASSAGES, QUESTION, Bytes, fake_policy, fake_retriever

from gateway.dependencies import answer_service

TRACE = (
    "both\n\nSearching:\n- When was Claude Monet born?\n- When was Camille Pissarro born?\n\n"
    "When was Claude Monet born? → Claude Monet; Giverny\nWhen was Camille Pissarro born? → Camille Pissarro\n\n1830 is before 1840"
)
USER = {"role": "user", "content": QUESTION}


def test_a_completion_carries_answer_trace_citations_and_real_usage(start_openai):
    client, policy, _ = start_openai()
    completion = client.chat.completions.create(model="parallelsearch", messages=[USER])
    choice = completion.choices[0]
    assert (choice.message.content, choice.finish_reason) == ("Camille Pissarro", "stop")
    assert choice.message.reasoning_content == TRACE
    assert completion.usage.completion_tokens == len(BOTH) + len(DONE)
    assert completion.usage.prompt_tokens == sum(len(context.encode()) for context in policy.state.contexts)
    assert completion.usage.total_tokens == completion.usage.prompt_tokens + completion.usage.completion_tokens
    assert [citation["passage_id"] for citation in completion.parallelsearch["citations"]] == ["monet-1", "pissarro-1"]
    assert completion.parallelsearch["notice"] == ""
    assert completion.id.startswith("chatcmpl-")


def test_a_stream_joins_to_the_same_completion(start_openai):
    client, _, _ = start_openai()
    options = {"include_usage": True}
    chunks = list(client.chat.completions.create(model="parallelsearch", messages=[USER], stream=True, stream_options=options))
    deltas = [chunk.choices[0].delta for chunk in chunks if chunk.choices]
    assert deltas[0].role == "assistant"
    assert "".join(delta.content or "" for delta in deltas) == "Camille Pissarro"
    assert "".join(getattr(delta, "reasoning_content", None) or "" for delta in deltas) == TRACE
    assert [chunk.choices[0].finish_reason for chunk in chunks if chunk.choices][-1] == "stop"
    assert chunks[-1].usage.completion_tokens == len(BOTH) + len(DONE)
    assert len({chunk.id for chunk in chunks}) == 1


def test_without_being_asked_for_usage_a_stream_ends_in_the_finish_reason(start_openai):
    client, _, _ = start_openai()
    chunks = list(client.chat.completions.create(model="parallelsearch", messages=[USER], stream=True))
    assert chunks[-1].choices[0].finish_reason == "stop"
    assert chunks[-1].parallelsearch["stop_reason"] == "answered"


def test_the_sequential_model_runs_one_sub_query(start_openai):
    client, policy, _ = start_openai()
    client.chat.completions.create(model="parallelsearch-sequential", messages=[USER])
    assert "separated by ##" not in policy.state.contexts[0]


def test_the_last_user_message_is_the_question_and_the_response_says_so(start_openai):
    client, policy, _ = start_openai()
    messages = [
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": "Who painted Haystacks?"},
        {"role": "assistant", "content": "Monet"},
        {"role": "user", "content": [{"type": "text", "text": "Who is older,"}, {"type": "text", "text": "he or Pissarro?"}]},
    ]
    completion = client.chat.completions.create(model="parallelsearch", messages=messages)
    assert "Question: Who is older,\nhe or Pissarro?" in policy.state.contexts[0]
    assert "Haystacks" not in policy.state.contexts[0]
    assert completion.parallelsearch["notice"] == "Only the last user message was used as the question."
    assert completion.choices[0].message.reasoning_content.startswith("Only the last user message")


def test_a_system_message_alone_is_no_conversation(start_openai):
    client, _, _ = start_openai()
    messages = [{"role": "system", "content": "Be brief."}, USER]
    assert client.chat.completions.create(model="parallelsearch", messages=messages).parallelsearch["notice"] == ""


def test_what_openai_has_and_we_do_not_is_tolerated(start_openai):
    client, _, _ = start_openai()
    completion = client.chat.completions.create(
        model="parallelsearch",
        messages=[USER | {"name": "me"}],
        temperature=0.3,
        top_p=0.9,
        max_tokens=10,
        n=1,
        user="u",
        presence_penalty=0.1,
        tools=[{"type": "function", "function": {"name": "f", "parameters": {}}}],
        extra_body={"nobody": "knows", "chat_template_kwargs": {}},
    )
    assert completion.choices[0].message.content == "Camille Pissarro"


def test_models_are_listed_and_described(start_openai):
    client, _, _ = start_openai()
    assert [model.id for model in client.models.list()] == ["parallelsearch", "parallelsearch-sequential"]
    assert client.models.retrieve("parallelsearch").owned_by == "parallelsearch"
    with pytest.raises(openai.NotFoundError):
        client.models.retrieve("gpt")
    with pytest.raises(openai.NotFoundError):
        client.models.retrieve("parallelsearch:no-such-index")


def test_an_unknown_model_is_404_in_openais_form(start_openai):
    client, _, _ = start_openai()
    with pytest.raises(openai.NotFoundError) as raised:
        client.chat.completions.create(model="gpt", messages=[USER])
    assert raised.value.body["param"] == "model"


@pytest.mark.parametrize(
    "messages",
    [
        [],
        [{"role": "system", "content": "x"}],
        [{"role": "user", "content": " "}],
        [{"role": "user", "content": "a\x00b"}],
        [{"role": "user", "content": [{"type": "image_url", "image_url": {"url": "x"}}]}],
        [{"role": "user", "content": "x" * 9_000}],
        [{"role": "user", "content": 7}],
        "hello",
        None,
    ],
)
def test_messages_that_ask_nothing_are_refused_by_name(start_openai, messages):
    _, _, gateway = start_openai()
    response = httpx2.post(f"{gateway.url}/v1/chat/completions", json={"model": "parallelsearch", "messages": messages})
    assert response.status_code == 422
    assert response.json()["error"]["param"].startswith("messages")
    assert response.json()["error"]["type"] == "invalid_request_error"


@pytest.mark.parametrize(
    ("content", "param", "words"),
    [
        ("a\x00b", "messages.0.content.0.text", "must not contain NUL characters"),
        ([{"type": "text", "text": "a"}, {"type": "text", "text": "\x00"}], "messages.0.content.1.text", "must not contain NUL"),
        ([{"type": "text", "text": 5}], "messages.0.content.0.text", "Input should be a valid string"),
        (" ", "messages", "the last user message: must not be blank"),
        ("x" * 9_000, "messages", "the last user message: Value should have at most 8192 characters, not 9000"),
    ],
)
def test_a_fault_is_said_of_its_field_and_in_plain_words(start_openai, content, param, words):
    _, _, gateway = start_openai()
    body = {"model": "parallelsearch", "messages": [{"role": "user", "content": content}]}
    error = httpx2.post(f"{gateway.url}/v1/chat/completions", json=body).json()["error"]
    assert error["param"] == param
    assert error["message"].startswith(f"{param}: {words}")


@pytest.mark.parametrize(("index", "words"), [("a\x00b", "must not contain NUL characters"), ("x" * 300, "at most 256")])
def test_an_index_that_cannot_be_one_is_a_fault_of_the_model_that_names_it(start_openai, index, words):
    _, _, gateway = start_openai()
    body = {"model": f"parallelsearch:{index}", "messages": [USER]}
    error = httpx2.post(f"{gateway.url}/v1/chat/completions", json=body).json()["error"]
    assert (error["param"], words in error["message"]) == ("model", True)


@pytest.mark.parametrize("content_type", ["text/plain", "application/x-www-form-urlencoded", None])
def test_a_body_of_another_content_type_is_told_which_one_it_takes(start_openai, content_type):
    _, _, gateway = start_openai()
    headers = {"content-type": content_type} if content_type else {}
    response = httpx2.post(f"{gateway.url}/v1/chat/completions", content=b'{"model": "parallelsearch"}', headers=headers)
    assert (response.status_code, "application/json" in response.json()["error"]["message"]) == (422, True)


@pytest.mark.parametrize("seed", [-(2**63), -1, 0, 2**31, 2**63 - 1])
def test_every_seed_of_openai_s_is_taken(start_openai, seed):
    client, policy, _ = start_openai()
    client.chat.completions.create(model="parallelsearch", messages=[USER], seed=seed)
    assert policy.state.last["seed"] == seed % 2**31


@pytest.mark.parametrize("raw", [b"", b"{", b"[]", b"\xff"])
def test_a_body_that_is_no_request_is_refused_in_openais_form(start_openai, raw):
    _, _, gateway = start_openai()
    url = f"{gateway.url}/v1/chat/completions"
    response = httpx2.post(url, content=raw, headers={"content-type": "application/json"})
    assert (response.status_code, response.json()["error"]["type"]) == (422, "invalid_request_error")
    huge = httpx2.post(url, content=b'"' + b"x" * 2_000_000 + b'"', headers={"content-type": "application/json"})
    assert (huge.status_code, huge.json()["error"]["type"]) == (413, "invalid_request_error")


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("GET", "/v1/chat/completions", 405),
        ("DELETE", "/v1/models", 405),
        ("POST", "/v1/models/parallelsearch", 405),
        ("GET", "/v1/models/gpt", 404),
        ("POST", "/v1/chat", 404),
        ("POST", "/v1/chat/completions/1/cancel", 404),
        ("POST", "/v1/completions", 404),
        ("POST", "/v1/responses", 404),
        ("POST", "/v1/embeddings", 404),
    ],
)
def test_what_is_not_there_is_said_in_openais_form(start_openai, method, path, status):
    _, _, gateway = start_openai()
    response = httpx2.request(method, f"{gateway.url}{path}")
    assert (response.status_code, response.headers["content-type"]) == (status, "application/json")
    assert ("allow" in response.headers) == (status == 405)
    error = response.json()["error"]
    assert (error.keys(), error["type"]) == ({"message", "type", "param", "code"}, "invalid_request_error")
    assert error["message"] and error["code"] == {404: "not-found", 405: "method-not-allowed"}[status]


def test_other_paths_keep_problems(start_openai):
    _, _, gateway = start_openai()
    for path in ("/v1/answers", "/v1/modelsx", "/v1/chats"):
        assert httpx2.request("DELETE", f"{gateway.url}{path}").headers["content-type"] == "application/problem+json"


def test_a_fault_of_ours_is_said_in_openais_form(start_gateway):
    client = start_gateway(fake_policy([]), fake_retriever(PASSAGES))
    client.app.dependency_overrides[answer_service] = lambda: None
    response = client.get("/v1/models")
    assert (response.status_code, response.json()["error"]["type"]) == (500, "server_error")
    assert response.headers["x-request-id"]


def test_a_policy_that_fails_is_503_in_openais_form(start_openai):
    client, _, _ = start_openai([500])
    with pytest.raises(openai.InternalServerError) as raised:
        client.chat.completions.create(model="parallelsearch", messages=[USER])
    assert raised.value.status_code == 503
    assert raised.value.code == "upstream-unavailable"
    assert raised.value.response.headers["retry-after"]


def test_a_stream_that_fails_midway_raises_in_the_client(start_openai):
    client, _, _ = start_openai([BOTH, 500])
    with pytest.raises(openai.APIError, match="policy"):
        list(client.chat.completions.create(model="parallelsearch", messages=[USER], stream=True))


def test_a_rollout_without_an_answer_has_empty_content_and_its_stop_reason(start_openai):
    client, _, _ = start_openai([BOTH, "<search> x </search>", "<search> y </search>", "<search> z </search>", "  "])
    completion = client.chat.completions.create(model="parallelsearch", messages=[USER])
    assert completion.choices[0].message.content == ""
    assert completion.parallelsearch["stop_reason"] == "malformed"


class Many(Bytes):
    def message(self, text):
        return super().message(text) * 16


@pytest.mark.parametrize("messages", [[USER], [USER, {"role": "assistant", "content": "Pissarro."}, USER]])
def test_a_stream_that_ends_before_its_first_turn_joins_to_the_same_completion(start_openai, messages):
    client, _, _ = start_openai(tokens=Many())
    messages = [*messages[:-1], {"role": "user", "content": QUESTION * 80}]
    whole = client.chat.completions.create(model="parallelsearch", messages=messages)
    assert whole.parallelsearch["stop_reason"] == "context_limit"
    choices = [chunk.choices[0] for chunk in client.chat.completions.create(model="parallelsearch", messages=messages, stream=True)]
    assert [choice.delta.role for choice in choices] == ["assistant", *[None] * (len(choices) - 1)]
    trace = "".join(getattr(choice.delta, "reasoning_content", None) or "" for choice in choices)
    assert (trace, choices[-1].finish_reason) == (whole.choices[0].message.reasoning_content, "length")
