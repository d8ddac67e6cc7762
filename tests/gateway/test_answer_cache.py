import json
import time

from gateway_fakes import BOTH, DONE, PASSAGES, QUESTION, fake_policy, fake_retriever


def ask(client, **body):
    return client.post("/v1/answers", json={"question": QUESTION} | body).json()


def test_answers_are_not_cached_unless_asked_for(start_gateway):
    policy = fake_policy([BOTH, DONE] * 2)
    client = start_gateway(policy, fake_retriever(PASSAGES))
    ask(client), ask(client)
    assert len(policy.state.contexts) == 4


def test_the_same_question_is_answered_once(start_gateway):
    policy = fake_policy([BOTH, DONE] * 2)
    client = start_gateway(policy, fake_retriever(PASSAGES), answer_cache_ttl_s=60)
    first, second = ask(client), ask(client)
    assert len(policy.state.contexts) == 2
    assert first["turns"] == second["turns"]
    assert first["id"] != second["id"]
    assert "cache" in second["detail"]


def test_what_could_be_answered_otherwise_is_asked_again(start_gateway):
    policy, retriever = fake_policy([BOTH, DONE] * 6), fake_retriever(PASSAGES)
    client = start_gateway(policy, retriever, answer_cache_ttl_s=60)
    for options in ({}, {"temperature": 0.5}, {"cache": "bypass"}, {"top_k": 2}, {"mode": "sequential"}):
        ask(client, **options)
    retriever.state.fingerprint = "f2"
    time.sleep(0.6)
    ask(client)
    assert len(policy.state.contexts) == 12


def test_a_failed_rollout_is_tried_again(start_gateway):
    policy = fake_policy([500, BOTH, DONE])
    client = start_gateway(policy, fake_retriever(PASSAGES), answer_cache_ttl_s=60)
    assert ask(client)["status"] == 503
    assert ask(client)["answer"] == "Camille Pissarro"


def test_an_answer_without_what_a_failed_sub_query_would_have_found_is_not_kept(start_gateway):
    passages = dict(PASSAGES) | {"When was Claude Monet born?": 422}
    policy = fake_policy([BOTH, DONE] * 2)
    client = start_gateway(policy, fake_retriever(passages), answer_cache_ttl_s=60)
    assert [row["failed"] for row in ask(client)["turns"][0]["observation"]] == [True, False]
    passages |= PASSAGES
    assert [row["failed"] for row in ask(client)["turns"][0]["observation"]] == [False, False]


def test_an_answer_that_a_short_deadline_hurried_is_not_given_to_whoever_has_time(start_gateway):
    def slowly(_):
        time.sleep(0.6)
        return BOTH

    policy = fake_policy([slowly, "a guess </answer>", BOTH, DONE])
    client = start_gateway(policy, fake_retriever(PASSAGES), answer_cache_ttl_s=60)
    assert ask(client, deadline_s=1.6)["answer"] == "a guess"
    assert ask(client)["answer"] == "Camille Pissarro"


def test_an_answer_after_the_last_search_that_was_allowed_is_kept(start_gateway):
    policy = fake_policy([BOTH, "Camille Pissarro </answer>"])
    client = start_gateway(policy, fake_retriever(PASSAGES), answer_cache_ttl_s=60)
    assert ask(client, max_turns=1)["answer"] == ask(client, max_turns=1)["answer"] == "Camille Pissarro"


def test_an_index_that_changes_meanwhile_leaves_nothing_behind(start_gateway):
    def changed(_):
        retriever.state.fingerprint = "f2"
        return BOTH

    policy, retriever = fake_policy([changed, DONE, BOTH, DONE]), fake_retriever(PASSAGES)
    client = start_gateway(policy, retriever, answer_cache_ttl_s=60)
    assert ask(client)["index"]["fingerprint"] == "f2"
    retriever.state.fingerprint = "f1"
    time.sleep(0.6)
    assert ask(client)["index"]["fingerprint"] == "f1"
    assert len(policy.state.contexts) == 4


def events(response):
    return [json.loads(line.removeprefix("data: ")) for line in response.text.splitlines() if line.startswith("data: {")]


def joined(told, part):
    return "".join(event["text"] for event in told if event["event"] == f"{part}.delta")


def test_a_cached_answer_is_streamed_as_one_that_was_just_found(start_gateway):
    client = start_gateway(fake_policy([BOTH, DONE]), fake_retriever(PASSAGES), answer_cache_ttl_s=60)
    first, second = (events(client.post("/v1/answers", json={"question": QUESTION, "stream": True})) for _ in range(2))
    assert "cache" in second[-1]["detail"]
    for part in ("reasoning", "answer"):
        assert joined(second, part) == joined(first, part)
    for name in ("turn.started", "search.started", "search.result", "done"):
        told, again = ([event for event in stream if event["event"] == name] for stream in (first, second))
        assert len(told) == len(again) > 0
        assert {event.get("id") for event in again} <= {None, second[-1]["id"]}


def test_a_cached_answer_is_the_same_completion_and_the_same_chunks(start_gateway):
    client = start_gateway(fake_policy([BOTH, DONE]), fake_retriever(PASSAGES), answer_cache_ttl_s=60)
    earlier = [{"role": "user", "content": "Hello"}, {"role": "assistant", "content": "Hi"}]
    body = {"model": "parallelsearch", "messages": [*earlier, {"role": "user", "content": QUESTION}]}
    whole = [client.post("/v1/chat/completions", json=body).json()["choices"][0]["message"] for _ in range(2)]
    assert whole[0] == whole[1]
    deltas = [chunk["choices"][0]["delta"] for chunk in events(client.post("/v1/chat/completions", json=body | {"stream": True}))]
    assert deltas[0]["role"] == "assistant"
    assert {name: "".join(delta.get(name, "") for delta in deltas) for name in ("role", "content", "reasoning_content")} == whole[0]


def test_a_cached_answer_is_kept_where_answers_are(start_gateway, tmp_path):
    client = start_gateway(
        fake_policy([BOTH, DONE]), fake_retriever(PASSAGES), answer_cache_ttl_s=60, store_path=tmp_path / "answers.db"
    )
    for asked in (ask(client), ask(client)):
        assert client.get(f"/v1/answers/{asked['id']}").json() == asked
