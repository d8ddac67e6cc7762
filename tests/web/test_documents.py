"""The documents view: what became of each, uploading and removing; what a file is called stays text."""

import json

import pytest
from playwright.sync_api import expect
from web_stand_ins import SCRIPT_TAG

pytestmark = pytest.mark.web
INDEX = {"name": "mine", "passages": 3, "documents": 2, "built_at": ""}
DOCUMENTS = [
    {"source": SCRIPT_TAG, "state": "indexed", "reason": "", "passages": 3, "uploaded": True},
    {"source": "locked.pdf", "state": "unreadable", "reason": "is password-protected", "passages": 0, "uploaded": True},
]


def status(work="idle", detail=""):
    return {"name": "mine", "index": INDEX, "work": {"state": work, "detail": detail}, "total": 2, "documents": DOCUMENTS}


@pytest.fixture
def served(new_page):
    """The page over an index `mine`; what it sends is in the list."""
    page, sent = new_page(), []

    def change(route):
        request = route.request
        sent.append((request.method, request.url.split("/v1/")[1], request.headers.get("authorization"), request.post_data_buffer))
        route.fulfill(status=202, json={"name": "mine", "documents": [], "work": {"state": "queued", "detail": ""}})

    page.route("**/v1/indexes", lambda route: route.fulfill(json={"indexes": [INDEX], "faults": {"broken": SCRIPT_TAG}}))
    page.route("**/v1/indexes/mine?limit=1000", lambda route: route.fulfill(json=status("failed", SCRIPT_TAG)))
    page.route("**/v1/indexes/mine/documents**", change)
    return page, sent


def test_documents_are_shown_as_text_with_what_became_of_them(served):
    page, _ = served
    page.get_by_role("link", name="Documents").click()
    expect(page.locator("main")).to_contain_text(SCRIPT_TAG)
    page.get_by_role("link", name="mine").click()
    rows = page.get_by_role("row")
    expect(rows.nth(1)).to_contain_text(SCRIPT_TAG)
    expect(rows.nth(2)).to_contain_text("cannot be read: it is password-protected")
    expect(page.locator(".stop-reason")).to_contain_text(SCRIPT_TAG)
    assert page.evaluate("document.querySelectorAll('main script, main img').length") == 0
    assert page.evaluate("window.hacked") is None


def test_documents_are_uploaded_and_removed_with_the_admin_token(served):
    page, sent = served
    page.evaluate("sessionStorage.setItem('parallelsearch.admin-token', 'secret')")
    page.goto("/#/documents/mine")
    page.locator("main input[type=file]").set_input_files({"name": "a b.md", "mimeType": "text/markdown", "buffer": b"# Lakes"})
    page.get_by_role("button", name="Upload").click()
    expect(page.get_by_role("status")).to_have_text("The documents were sent.")
    page.get_by_role("button", name="Remove locked.pdf").click()
    expect(page.get_by_role("status")).to_have_text("locked.pdf is being removed.")
    upload, removal = sent
    assert upload[:3] == ("POST", "indexes/mine/documents", "Bearer secret")
    assert b'name="files"; filename="a b.md"' in upload[3]
    assert removal[:3] == ("DELETE", "indexes/mine/documents/locked.pdf", "Bearer secret")


def test_a_refused_upload_says_why(served):
    page, _ = served
    problem = {"type": "x", "title": "Unauthorized", "status": 401, "detail": "This route needs the admin token."}
    page.route("**/v1/indexes/mine/documents", lambda route: route.fulfill(status=401, body=json.dumps(problem)))
    page.goto("/#/documents/mine")
    page.locator("main input[type=file]").set_input_files({"name": "a.md", "mimeType": "text/markdown", "buffer": b"x"})
    page.get_by_role("button", name="Upload").click()
    expect(page.locator("main")).to_contain_text("This route needs the admin token.")


def test_while_documents_are_sent_they_cannot_be_sent_again(served):
    page, _ = served
    waiting = []
    page.route("**/v1/indexes/mine/documents", lambda route: waiting.append(route))
    page.goto("/#/documents/mine")
    page.locator("main input[type=file]").set_input_files({"name": "a.md", "mimeType": "text/markdown", "buffer": b"x"})
    page.get_by_role("button", name="Upload").click()
    expect(page.get_by_role("button", name="Sending")).to_be_disabled()
    waiting[0].fulfill(status=202, json={})
    expect(page.get_by_role("button", name="Upload")).to_be_enabled()
    assert len(waiting) == 1


@pytest.mark.parametrize(("total", "said"), [(2, 0), (2_000, 1)])
def test_documents_that_are_not_listed_are_told_of(served, total, said):
    page, _ = served
    page.route("**/v1/indexes/mine?limit=1000", lambda route: route.fulfill(json=status() | {"total": total}))
    page.goto("/#/documents/mine")
    page.get_by_role("row").nth(1).wait_for()
    expect(page.get_by_text("The first 2 are listed.")).to_have_count(said)


@pytest.mark.parametrize(("on", "taken"), [("main input[type=file]", True), ("main h1", False)])
def test_a_file_dropped_on_the_field_is_the_fields_and_elsewhere_the_pages(served, on, taken):
    page, _ = served
    page.goto("/#/documents/mine")
    left_alone = page.locator(on).evaluate("""element => {
        const data = new DataTransfer();
        data.items.add(new File(["x"], "a.md"));
        const told = ["dragover", "drop"].map(type =>
            element.dispatchEvent(new DragEvent(type, { dataTransfer: data, cancelable: true, bubbles: true })));
        return told.every(Boolean);
    }""")
    assert left_alone == taken
    expect(page.locator(".drop")).to_have_count(0)
    page.wait_for_timeout(200)
    assert page.url.endswith("#/documents/mine" if taken else "#/opened")
