import time

import byte_tokenizer
import pytest
from gateway_fakes import BOTH, DONE, PASSAGES, QUESTION, HandedOut, fake_policy, fake_retriever
from tokenizers import normalizers, pre_tokenizers

TOKENIZER = byte_tokenizer.make()


def lowercasing():
    tokenizer = byte_tokenizer.make()
    tokenizer.backend_tokenizer.normalizer = normalizers.Lowercase()
    return tokenizer


def with_prefix_space():
    tokenizer = byte_tokenizer.make()
    tokenizer.backend_tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=True)
    return tokenizer


def contexts_of(start_gateway, **options):
    """The token ids of each generation of one answer, and the texts that went to `/tokenize` for it."""
    policy = fake_policy([BOTH, DONE], **options)
    seen = []

    async def watched(scope, receive, send):
        await policy(scope, receive, send)
        if scope["path"] == "/v1/completions":
            seen.append(policy.state.last["prompt"])

    client = start_gateway(watched, fake_retriever(PASSAGES), upstream_refresh_s=60.0)
    policy.state.tokenized.clear()
    assert client.post("/v1/answers", json={"question": QUESTION}).json()["answer"] == "Camille Pissarro"
    return seen, policy.state.tokenized


def test_with_the_policy_s_tokenizer_no_text_travels_and_the_ids_are_the_same(start_gateway):
    here, asked = contexts_of(start_gateway, tokens=HandedOut(TOKENIZER))
    there, needed = contexts_of(start_gateway, tokens=HandedOut(TOKENIZER), own_routes=False)
    assert here == there
    assert len(here) == 2
    assert (asked, len(needed)) == ([], 2)


@pytest.mark.parametrize("other", [lowercasing(), with_prefix_space()])
def test_a_tokenizer_that_disagrees_with_the_policy_is_not_used(start_gateway, other):
    here, asked = contexts_of(start_gateway, tokens=HandedOut(TOKENIZER, file=other))
    assert len(asked) == 2
    assert here[0] == HandedOut(TOKENIZER).message(asked[0])


def test_what_is_no_tokenizer_is_not_used(start_gateway):
    tokens = HandedOut(TOKENIZER)
    tokens.file = b'{"model": "none"}'
    _, asked = contexts_of(start_gateway, tokens=tokens)
    assert len(asked) == 2


@pytest.mark.parametrize("other", [lowercasing(), b'{"model": "none"}'], ids=["disagrees", "is none"])
def test_a_tokenizer_that_is_of_no_use_is_looked_at_once(start_gateway, other):
    tokens = HandedOut(TOKENIZER, file=other if not isinstance(other, bytes) else None)
    tokens.file = other if isinstance(other, bytes) else tokens.file
    policy, fetched = fake_policy([DONE], tokens=tokens), []

    async def watched(scope, receive, send):
        fetched.append(scope["path"])
        await policy(scope, receive, send)

    start_gateway(watched, fake_retriever(PASSAGES), upstream_refresh_s=0.05)
    until = time.monotonic() + 10
    while fetched.count("/v1/models") < 5:
        assert time.monotonic() < until
        time.sleep(0.05)
    assert fetched.count("/v1/policy/tokenizer") == 1
    compared = [text for text in policy.state.tokenized if text != "a"]
    assert len(compared) == len(set(compared))
