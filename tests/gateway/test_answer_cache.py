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
