"""Keys that are wrong, and which of two goes with what."""

import hashlib
import json

import pytest
from playwright.sync_api import expect
from web_actions import ask

pytestmark = pytest.mark.web
KEY = "parallelsearch.api-key"
TOKEN = "parallelsearch.admin-token"
INDEX = {"name": "mine", "index": None, "work": {"state": "idle", "detail": ""}, "total": 0, "documents": []}


@pytest.fixture
def locked_page(new_page, second_gateway, tmp_path):
    """The page of a gateway with the key `ps-secret`."""
    keys = tmp_path / "keys.json"
    keys.write_text(json.dumps([{"name": "one", "sha256": hashlib.sha256(b"ps-secret").hexdigest()}]))
    with second_gateway(GATEWAY_API_KEYS_FILE=str(keys)) as url:
        yield new_page(url)


def give(page, key):
    alert = page.get_by_role("alert")
    alert.get_by_label("API key").fill(key)
    alert.get_by_role("button").click()


@pytest.mark.parametrize("key", ["ключ", "“ps-secret”", "ps-\u200bsecret", "clé"])
def test_what_can_be_no_key_is_told_as_such_and_not_as_a_gateway_that_is_away(locked_page, key):
    locked_page.evaluate("([name, key]) => sessionStorage.setItem(name, key)", [KEY, key])
    for view in ("Documents", "Training"):
        locked_page.get_by_role("link", name=view).click()
        expect(locked_page.get_by_role("alert")).to_contain_text("holds characters that no key has")
    locked_page.get_by_role("link", name="Ask", exact=True).click()
    ask(locked_page, "q?")
    expect(locked_page.get_by_role("alert")).to_contain_text("holds characters that no key has")
    give(locked_page, "ps-secret")
    expect(locked_page.locator(".answer bdi")).to_have_text("Camille Pissarro", timeout=20_000)


@pytest.mark.parametrize(("kept", "passing"), [("localStorage", "sessionStorage"), ("sessionStorage", "localStorage")])
def test_a_key_put_right_is_kept_where_the_wrong_one_was(locked_page, kept, passing):
    locked_page.evaluate(f"name => {kept}.setItem(name, 'ps-wrong')", KEY)
    ask(locked_page, "q?")
    give(locked_page, "ps-secret")
    expect(locked_page.locator(".answer bdi")).to_have_text("Camille Pissarro", timeout=20_000)
    assert locked_page.evaluate(f"name => [{kept}.getItem(name), {passing}.getItem(name)]", KEY) == ["ps-secret", None]


@pytest.mark.parametrize("view", ["documents", "documents/mine", "training", "training/r1"])
@pytest.mark.parametrize(("key", "token", "sent"), [("right", "wrong", "right"), (None, "right", "right"), (None, None, None)])
def test_reading_goes_with_the_api_key_and_with_the_admin_token_where_there_is_none(new_page, view, key, token, sent):
    page, seen = new_page(), []

    def answer(route):
        seen.append(route.request.headers.get("authorization"))
        route.fulfill(status=404, json={"title": "Not found", "status": 404, "detail": "None."})

    page.route("**/v1/indexes**", answer)
    page.route("**/v1/training-runs**", answer)
    for name, value in ((KEY, key), (TOKEN, token)):
        if value:
            page.evaluate("([name, value]) => sessionStorage.setItem(name, value)", [name, value])
    page.goto(f"/#/{view}")
    page.wait_for_timeout(300)
    assert seen
    assert set(seen) == {f"Bearer {sent}" if sent else None}


def test_a_change_that_is_refused_for_want_of_the_admin_token_is_done_again_once_it_is_given(new_page):
    page, sent = new_page(), []

    def change(route):
        sent.append(route.request.headers.get("authorization"))
        problem = {"title": "Unauthorized", "status": 401, "detail": "This route needs the admin token."}
        route.fulfill(status=202, json={}) if sent[-1] == "Bearer let-me" else route.fulfill(status=401, json=problem)

    page.route("**/v1/indexes/mine?limit=1000", lambda route: route.fulfill(json=INDEX))
    page.route("**/v1/indexes/mine/documents", change)
    page.evaluate("name => sessionStorage.setItem(name, 'right')", KEY)
    page.goto("/#/documents/mine")
    page.locator("main input[type=file]").set_input_files({"name": "a.md", "mimeType": "text/markdown", "buffer": b"x"})
    page.get_by_role("button", name="Upload").click()
    alert = page.get_by_role("alert")
    alert.get_by_label("Admin token").fill("let-me")
    alert.get_by_role("button", name="Try again").click()
    expect(alert).to_have_count(0)
    assert sent == ["Bearer right", "Bearer let-me"]
    assert page.evaluate("name => sessionStorage.getItem(name)", KEY) == "right"


@pytest.mark.parametrize("where", ["the settings", "the spot"])
def test_a_key_that_is_given_opens_what_it_is_for_without_loading_the_page_anew(locked_page, where):
    def models(route):
        known = route.request.headers.get("authorization") == "Bearer ps-secret"
        data = {"data": [{"id": "parallelsearch"}, {"id": "parallelsearch:mine"}]}
        route.fulfill(json=data) if known else route.fulfill(status=401, json={"title": "Unauthorized", "status": 401})

    locked_page.route("**/v1/models", models)
    locked_page.reload()
    locked_page.get_by_text("Model and limits").click()
    expect(locked_page.get_by_label("Index")).to_have_count(0)
    if where == "the settings":
        locked_page.get_by_role("button", name="Settings").click()
        locked_page.get_by_label("API key").fill("ps-secret")
        locked_page.get_by_role("button", name="Save").click()
    else:
        ask(locked_page, "q?")
        give(locked_page, "ps-secret")
    expect(locked_page.get_by_label("Index")).to_be_visible()
