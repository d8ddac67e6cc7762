"""A citation of an uploaded document opens its file: a PDF at its page in the browser's own viewer, anything else as a download."""

import pytest
from document_files import write_pdf
from playwright.sync_api import expect
from web_stand_ins import SCRIPT_TAG

pytestmark = pytest.mark.web
BASE = "/v1/indexes/mine/documents"
ELSEWHERE = (
    "/v1/indexes/../admin/documents/x/content",
    "/v1/indexes/mine/documents/%2e%2e/content",
    "//host/v1/indexes/a/documents/b/content",
)


@pytest.fixture
def served(new_page, tmp_path):
    """The page of an answer with these citations; what it fetches of documents is in the list."""
    pdf = write_pdf(tmp_path / "a.pdf", ["First page.", "Second page."]).read_bytes()
    page, asked = new_page(), []

    def original(route):
        asked.append((route.request.url.split(BASE)[1], route.request.headers.get("authorization")))
        if "gone" in route.request.url:
            route.fulfill(
                status=404, json={"type": "x", "title": "Not found", "status": 404, "detail": "There is no such document."}
            )
        elif "pdf" in route.request.url:
            route.fulfill(body=pdf, content_type="application/pdf", headers={"content-disposition": "attachment"})
        else:
            route.fulfill(body=SCRIPT_TAG, content_type="text/plain", headers={"content-disposition": "attachment"})

    def show(*citations):
        turn = {"action": {"type": "search", "queries": ["q"]}, "observation": [{"query": "q", "passages": [], "latency_ms": 1}]}
        cited = [{"title": "t", "turn": 0, "query": "q", "passage_id": str(number)} | each for number, each in enumerate(citations)]
        trajectory = {"id": "x", "question": "q?", "turns": [turn], "answer": "a", "stop_reason": "answered", "citations": cited}
        page.route("**/v1/answers/x", lambda route: route.fulfill(json=trajectory))
        page.route(f"**{BASE}/**", original)
        page.evaluate("sessionStorage.setItem('parallelsearch.api-key', 'key')")
        page.goto("/#/answers/x")
        return page, asked

    return show


def test_a_pdf_opens_at_its_page_with_the_readers_key(served):
    page, asked = served({"source": "a b.pdf", "page": 2, "url": f"{BASE}/a%20b.pdf/content#page=2"})
    with page.context.expect_page() as opened:
        page.get_by_role("button", name="Open a b.pdf, page 2").click()
    assert opened.value.url.startswith("blob:")
    assert opened.value.url.endswith("#page=2")
    assert asked == [("/a%20b.pdf/content", "Bearer key")]
    assert opened.value.evaluate("document.contentType") == "application/pdf"


def test_anything_else_is_saved_and_never_shown(served):
    page, _ = served({"source": "page.html", "url": f"{BASE}/page.html/content"})
    with page.expect_download() as saved:
        page.get_by_role("button", name="Open page.html").click()
    assert saved.value.suggested_filename == "page.html"
    assert saved.value.path().read_text() == SCRIPT_TAG
    assert len(page.context.pages) == 1
    assert page.evaluate("window.hacked") is None


def test_a_document_that_has_gone_says_so_and_an_address_elsewhere_is_no_link(served):
    page, asked = served(
        {"source": "gone.md", "url": f"{BASE}/gone.md/content"}, *({"source": "x", "url": url} for url in ELSEWHERE)
    )
    page.get_by_role("button", name="Open gone.md").click()
    expect(page.get_by_role("alert")).to_contain_text("There is no such document.")
    assert page.locator(".sources .source button, .sources .source a").count() == 1
    assert len(asked) == 1
