"""Questions of several chains side by side: several rounds, each with several sub-queries."""

import json

import pytest
from gateway_fakes import fake_policy, fake_retriever

QUESTION = "Which film has the director who was born first, Nosferatu or Metropolis?"
DIRECTORS = ("Who directed Nosferatu?", "Who directed Metropolis?")
BIRTHS = ("When was F. W. Murnau born?", "When was Fritz Lang born?")
SCRIPT = [
    f"<think> both directors first </think>\n\n<search> {' ## '.join(DIRECTORS)} </search>",
    f"<think> now their births </think>\n\n<search> {' ## '.join(BIRTHS)} </search>",
    "<think> 1888 is before 1890 </think>\n\n<answer> Nosferatu </answer>",
]
MURNAU = ("murnau", "F. W. Murnau", "F. W. Murnau, born in 1888, directed Nosferatu.")
LANG = ("lang", "Fritz Lang", "Fritz Lang, born in 1890, directed Metropolis.")
PASSAGES = {DIRECTORS[0]: [MURNAU], DIRECTORS[1]: [LANG], BIRTHS[0]: [MURNAU], BIRTHS[1]: [LANG]}


def asked(start_gateway, **settings):
    policy, retriever = fake_policy(SCRIPT), fake_retriever(PASSAGES)
    body = start_gateway(policy, retriever, **settings).post("/v1/answers", json={"question": QUESTION}).json()
    return body, policy.state.contexts, retriever.state.batches


def test_each_round_is_one_batch_and_a_call_to_the_policy(start_gateway):
    body, _, batches = asked(start_gateway)
    assert body["answer"] == "Nosferatu"
    assert batches == [list(DIRECTORS), list(BIRTHS)]
    assert (body["usage"]["llm_calls"], body["usage"]["search_rounds"], body["usage"]["sub_queries"]) == (3, 2, 4)
    assert [citation["passage_id"] for citation in body["citations"]]


@pytest.mark.parametrize(("layout", "shown_again"), [("labelled", True), ("compact", False)])
def test_compact_shows_a_passage_of_an_earlier_round_once(start_gateway, layout, shown_again):
    body, contexts, _ = asked(start_gateway, policy_layout=layout)
    assert body["answer"] == "Nosferatu"
    assert contexts[-1].count(MURNAU[2]) == (2 if shown_again else 1)
    assert ("Doc 1(Title: F. W. Murnau) shown above" in contexts[-1]) is not shown_again


def test_a_stream_tells_both_rounds(start_gateway):
    client = start_gateway(fake_policy(SCRIPT), fake_retriever(PASSAGES))
    text = client.post("/v1/answers", json={"question": QUESTION, "stream": True}).text
    events = [json.loads(line.removeprefix("data: ")) for line in text.splitlines() if line.startswith("data: ")]
    landed = {(event["turn"], event["query"]) for event in events if event["event"] == "search.result"}
    assert landed == {(0, query) for query in DIRECTORS} | {(1, query) for query in BIRTHS}
