"""What the rollouts of one process share, handed to them as OpenRLHF does."""

import pickle

import byte_tokenizer
import httpx2
import pytest

from parallelsearch.clients.pools import HttpxPool
from parallelsearch.clients.retriever import RetrieverClient
from parallelsearch.rollout.interfaces import SearchBatch
from parallelsearch.rollout.types import Kind, Passage, SubQueryResult
from parallelsearch.schemas.training import ReinforcementSpec
from trainer import worker as module
from trainer.labels import Label
from trainer.worker import RetrieverGate, Worker

LABEL = Label(id="q", question="Who is older, A or B?", kind=Kind.PARALLEL, golden_answers=["A"])
TURNS = ("<think> a </think>\n\n<search> A born? ## B born? </search>", "<think> b </think>\n\n<answer> A </answer>")


class Instant:
    async def search(self, queries, top_k):
        return SearchBatch(tuple(SubQueryResult(query, (Passage("1", "A", "born first"),)) for query in queries))


@pytest.mark.anyio
async def test_the_tokenizer_is_made_ready_once_however_many_copies_of_it_the_rollouts_are_handed(tmp_path, monkeypatch):
    made = []

    class Counted(module.TokenizerCounter):
        def __init__(self, tokenizer):
            made.append(tokenizer)
            super().__init__(tokenizer)

    monkeypatch.setattr(module, "TokenizerCounter", Counted)
    worker = Worker(ReinforcementSpec(name="r", model="m", data="d"), tmp_path, Instant())
    packed = pickle.dumps(byte_tokenizer.make())
    for _ in range(5):
        episode = worker.episode(LABEL, pickle.loads(packed), (), prompt_tokens=10)
        for text in TURNS:
            await episode.step(text, (1, 2))
        assert episode.outcome.reward.matched
    assert len(made) == 1


@pytest.mark.anyio
async def test_a_run_whose_retriever_stays_away_says_so():
    def away(_):
        raise httpx2.ConnectError("nobody listens")

    gate = RetrieverGate(
        RetrieverClient("http://retriever", pool=HttpxPool(httpx2.MockTransport(away))), probe_every_s=0.01, wait_s=0.1
    )
    await gate.pass_through()
    gate.close()

    with pytest.raises(TimeoutError, match=r"retriever has not answered for 0\.1 s.*cannot be reached"):
        await gate.pass_through()


@pytest.mark.anyio
@pytest.mark.parametrize(
    ("golds", "shown"), [(["first"], True), (["last"], False), (["No"], False), (["yes."], False), (["no", "first"], False)]
)
async def test_evidence_is_an_answer_that_is_shown_and_no_verdict_which_stands_anywhere(tmp_path, golds, shown):
    class Says:
        async def search(self, queries, top_k):
            return SearchBatch(tuple(SubQueryResult(query, (Passage("1", "A", "yes, first; no"),)) for query in queries))

    worker = Worker(ReinforcementSpec(name="r", model="m", data="d"), tmp_path, Says())
    label = LABEL.model_copy(update={"golden_answers": golds})
    episode = worker.episode(label, byte_tokenizer.make(), (), prompt_tokens=10)
    for text in TURNS:
        await episode.step(text, (1, 2))

    assert episode.outcome.evidence_observed is shown
