"""What passages and models write is text, whatever it looks like."""

import json

import pytest
from playwright.sync_api import expect
from web_actions import ask, lane, settled
from web_stand_ins import HOSTILE, SCRIPT_TAG

pytestmark = pytest.mark.web
ELEMENTS = "document.querySelectorAll('main script, main img, main a[href^=javascript]').length"


def test_markup_in_answers_sub_queries_and_passages_stays_text(new_page):
    page = new_page()
    ask(page, HOSTILE)
    settled(page)
    expect(page.locator(".answer bdi")).to_have_text(SCRIPT_TAG)
    row = page.locator("button.row").first
    row.hover()
    expect(page.locator(".peek")).to_contain_text("[a link](javascript:alert(1))")
    row.click()
    expect(page.locator(".passages")).to_contain_text(SCRIPT_TAG)
    page.locator(".reasoning summary").first.click()
    expect(page.locator(".reasoning p").first).to_have_text(SCRIPT_TAG)
    page.get_by_role("link", name="History").click()
    assert page.evaluate(ELEMENTS) == 0
    assert page.evaluate("window.hacked") is None


def test_a_citation_leads_to_file_and_page_and_a_hostile_file_name_stays_text(new_page):
    page = new_page()
    turn = {
        "action": {"type": "search", "queries": ["q"], "dropped": 0},
        "observation": [{"query": "q", "passages": [], "latency_ms": 1}],
    }
    about = {"title": "t", "turn": 0, "query": "q"}
    citations = [
        about | {"passage_id": "1", "source": SCRIPT_TAG, "url": "javascript:alert(1)"},
        about | {"passage_id": "2", "source": "report.pdf", "page": 7, "url": "https://example.org/report.pdf#page=7"},
    ]
    trajectory = {"id": "x", "question": "q?", "turns": [turn], "answer": "a", "stop_reason": "answered", "citations": citations}
    page.route("**/v1/answers/x", lambda route: route.fulfill(json=trajectory))
    page.goto("/#/answers/x")
    sources = page.locator(".sources .source")
    expect(sources).to_have_text([SCRIPT_TAG, "report.pdf, page 7"])
    links = page.locator(".sources a").evaluate_all("links => links.map(link => link.href)")
    assert links == ["https://example.org/report.pdf#page=7"]
    assert page.evaluate(ELEMENTS) == 0
    assert page.evaluate("window.hacked") is None


def test_right_to_left_text_does_not_turn_its_surroundings(new_page):
    page = new_page()
    ask(page, HOSTILE)
    settled(page)
    page.locator("button.row").first.click()
    heads = page.locator(".passage-head")
    for i in range(2):
        title, score = (heads.nth(i).locator(part).bounding_box() for part in (".title", ".score"))
        assert title["x"] < score["x"]
    assert heads.nth(0).locator(".score").inner_text().endswith("0.500")
    hebrew = page.locator(".passage-text").nth(1)
    assert hebrew.evaluate("element => getComputedStyle(element).direction") == "rtl"
    assert page.locator(".title").first.evaluate("element => getComputedStyle(element).unicodeBidi") == "isolate"


def test_a_source_is_a_link_only_if_it_leads_to_the_web(new_page):
    page = new_page()
    found = [
        {"id": url, "title": "t", "text": "x", "score": 1, "url": url} for url in ("javascript:alert(1)", "https://example.org/a")
    ]
    turn = {
        "action": {"type": "search", "queries": ["q"], "dropped": 0},
        "observation": [{"query": "q", "passages": found, "latency_ms": 1}],
    }
    trajectory = {"id": "x", "question": "q?", "turns": [turn], "answer": "a", "stop_reason": "answered"}
    page.route("**/v1/answers/x", lambda route: route.fulfill(json=trajectory))
    page.goto("/#/answers/x")
    lane(page, "q").click()
    assert page.locator(".passages a").evaluate_all("links => links.map(link => link.href)") == ["https://example.org/a"]


def test_a_file_of_the_wrong_shape_breaks_nothing(new_page):
    page = new_page()
    shapes = {
        "id": 7,
        "question": "q",
        "turns": [None, {"action": 5, "observation": [[], {"passages": "many"}]}],
        "usage": [],
        "citations": [3],
    }
    page.route("**/v1/answers/odd", lambda route: route.fulfill(body=json.dumps(shapes), content_type="application/json"))
    page.goto("/#/answers/odd")
    expect(page.locator(".turn")).to_have_count(2)
