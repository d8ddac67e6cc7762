"""An address or a token that cannot be used is said before anything is sent."""

import pytest

from parallelsearch.clients.answers import AnswersClient
from parallelsearch.clients.policy_http import PolicyHttp
from parallelsearch.clients.retriever import RetrieverClient
from parallelsearch.clients.retriever_admin import RetrieverAdminClient
from parallelsearch.clients.trainer import TrainerClient
from parallelsearch.errors import InvalidInput

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
