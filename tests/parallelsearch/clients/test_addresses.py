"""An address or a token that cannot be used is said before anything is sent."""

import asyncio

import httpx2
import pytest

from parallelsearch.clients.answers import AnswersClient
from parallelsearch.clients.policy_http import PolicyHttp
from parallelsearch.clients.retriever import RetrieverClient
from parallelsearch.clients.retriever_admin import RetrieverAdminClient
from parallelsearch.clients.trainer import TrainerClient
from parallelsearch.errors import InvalidInput, ParallelSearchError
from parallelsearch.schemas.answers import AnswerRequest

CLIENTS = {
    "gateway": lambda url, token: AnswersClient(url, api_key=token),
    "policy": lambda url, token: PolicyHttp(url, api_key=token),
    "trainer": lambda url, token: TrainerClient(url, token=token),
    "retriever's admin routes": RetrieverAdminClient,
    "retriever": lambda url, _: RetrieverClient(url),
}
anywhere = pytest.mark.parametrize("client", CLIENTS.values(), ids=CLIENTS)


@anywhere
@pytest.mark.parametrize(
    "url", ["", "nonsense", "http://", "http://[", "http://a:99999", "http://a:0", "http://a:b", "ftp://a", "//a", "http://a b"]
)
def test_an_address_that_is_none(client, url):
    with pytest.raises(InvalidInput, match="is no address of the form http://host:port"):
        client(url, "t")


@anywhere
@pytest.mark.parametrize("url", ["http://a", "https://a:1/", "http://127.0.0.1:8080/v1", "http://[::1]:8080", "HTTP://A"])
def test_every_form_of_address(client, url):
    client(url, "a-token")


@pytest.mark.parametrize("client", list(CLIENTS.values())[:-1], ids=list(CLIENTS)[:-1])
@pytest.mark.parametrize("token", ["schlüssel", "two\nlines", " blank", "\ud800"])
def test_a_token_that_cannot_be_sent(client, token):
    with pytest.raises(InvalidInput, match="only printable ASCII") as refused:
        client("http://a", token)
    assert token not in refused.value.detail


@anywhere
@pytest.mark.parametrize(
    "url", ["ftp://user:s3cret@a", "http://user:s3cret@", "http://:s3cret@a:99999", "http://user:s3cret@a:b/x"]
)
def test_a_password_in_an_address_that_is_none_is_not_repeated(client, url):
    with pytest.raises(InvalidInput, match="is no address") as refused:
        client(url, "t")
    assert "s3cret" not in refused.value.detail


WITH_PASSWORD = "http://user:s3cret@127.0.0.1:9"


def elsewhere(status, body):
    return httpx2.MockTransport(lambda _: httpx2.Response(status, content=body))


@pytest.mark.parametrize("transport", [None, elsewhere(200, b"{}"), elsewhere(502, b"no JSON"), elsewhere(307, b"")])
def test_a_password_in_an_address_is_in_no_error(transport):
    failures = []
    for ask in (
        lambda: asyncio.run(AnswersClient(WITH_PASSWORD, transport=transport).answer(AnswerRequest(question="Who?"))),
        lambda: TrainerClient(WITH_PASSWORD, transport=transport).list(),
        lambda: RetrieverAdminClient(WITH_PASSWORD, "t", transport=transport).reload("x"),
    ):
        with pytest.raises(ParallelSearchError) as failure:
            ask()
        failures.append(failure.value.detail)
    assert not any("s3cret" in detail for detail in failures), failures
