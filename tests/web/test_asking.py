import hashlib
import json

import pytest
from cutting_proxy import severed_proxy
from playwright.sync_api import expect
from web_actions import ask, lane, settled
from web_stand_ins import AGES, BROKEN, FALLING, MONET, PISSARRO, REFUSED

pytestmark = pytest.mark.web


def test_the_lanes_of_a_turn_are_seen_to_search_at_once_before_the_answer_is_there(new_page):
    page = new_page()
    ask(page, AGES)
    expect(page.locator(".lane[data-state=waiting]")).to_have_count(2)
    assert page.locator(".answer bdi").count() == 0
    # In one look, since the axis grows while they wait.
    lefts = page.locator("button.row .bar").evaluate_all("bars => bars.map(bar => bar.getBoundingClientRect().x)")
    assert len(lefts) == 2
    assert abs(lefts[0] - lefts[1]) < 2
    settled(page)
    expect(page.locator(".lane[data-state=done]")).to_have_count(2)
    expect(page.locator(".answer bdi")).to_have_text("Camille Pissarro")


def test_totals_are_the_trajectorys(new_page):
    page = new_page()
    ask(page, AGES)
    settled(page)
    names, values = (page.locator(f".totals {tag}").all_inner_texts() for tag in ("dt", "dd"))
    assert dict(zip(names[:4], values[:4], strict=True)) == {"LLM calls": "2", "rounds": "1", "sub-queries": "2", "cache hits": "0"}
    stages = page.get_by_label("Time by stage").get_by_role("listitem").all_inner_texts()
    assert [stage.split()[0] for stage in stages] == ["policy", "search", "gateway"]


def test_a_citation_opens_its_passage_and_brings_the_focus_there(new_page):
    page = new_page()
    ask(page, AGES)
    settled(page)
    page.get_by_role("button", name="Source 2: Camille Pissarro").click()
    passage = page.locator(".passage.cited")
    expect(passage).to_be_focused()
    expect(passage).to_contain_text("10 July 1830")
    expect(lane(page, PISSARRO)).to_have_attribute("aria-expanded", "true")


def test_hovering_a_lane_shows_its_passages_with_sub_query_score_and_source(new_page):
    page = new_page()
    ask(page, AGES)
    settled(page)
    lane(page, MONET).hover()
    peek = page.locator(".peek")
    for text in (MONET, "Claude Monet", "monet-1", "0.500", "14 November 1840"):
        expect(peek).to_contain_text(text)
    page.keyboard.press("Escape")
    expect(peek).to_have_count(0)


def test_failed_and_dropped_sub_queries_say_so_in_words(new_page):
    page = new_page()
    ask(page, FALLING, {"Sub-queries a search": 2})
    settled(page)
    expect(page.locator(".lane[data-state=failed] .meta")).to_have_text("✕failed")
    dropped = page.locator(".lane[data-state=dropped]")
    expect(dropped).to_have_count(2)
    expect(dropped.first).to_contain_text("over one")
    expect(dropped.first.locator(".meta")).to_have_text("–dropped")


def test_reasoning_is_folded_beneath_its_turn(new_page):
    page = new_page()
    ask(page, AGES)
    settled(page)
    reasoning = page.locator(".reasoning").first
    words = reasoning.locator("p")
    expect(words).to_be_hidden()
    reasoning.locator("summary").click()
    expect(words).to_contain_text("Neither depends on the other")


def test_the_same_question_in_sequence_stands_beside_it_on_the_same_axis(new_page):
    page = new_page()
    page.get_by_label("Sequential beside it").check()
    ask(page, AGES)
    settled(page)
    traces = page.locator(".trace")
    expect(traces).to_have_count(2)
    ticks = [traces.nth(i).locator(".tick").all_inner_texts() for i in range(2)]
    assert ticks[0] == ticks[1]
    boxes = [traces.nth(i).bounding_box() for i in range(2)]
    assert boxes[0]["y"] == boxes[1]["y"]
    expect(traces.nth(1).locator(".turn")).to_have_count(3)
    expect(page.locator(".verdict")).to_contain_text("2 LLM calls in parallel")


def test_a_finished_answer_can_be_compared_afterwards(new_page):
    page = new_page()
    ask(page, AGES)
    settled(page)
    page.get_by_role("button", name="Compare with sequential").click()
    expect(page.locator(".verdict")).to_contain_text("3 in sequence", timeout=20_000)


def test_an_answer_can_be_stopped(new_page):
    page = new_page()
    ask(page, AGES)
    page.locator(".lane[data-state=waiting]").first.wait_for()
    page.get_by_role("button", name="Stop").click()
    expect(page.locator(".answer")).to_have_text("Stopped before an answer")
    expect(page.locator(".lane[data-state=unfinished]")).to_have_count(2)


@pytest.mark.parametrize(("question", "words"), [(BROKEN, "The policy failed."), (REFUSED, "Is the retriever up?")])
def test_a_failure_is_told_in_words_with_its_request_id_and_a_way_on(new_page, question, words):
    page = new_page()
    ask(page, question)
    problem = page.get_by_role("alert")
    expect(problem).to_contain_text(words, timeout=20_000)
    assert len(problem.locator(".request-id code").inner_text()) == 32
    expect(problem.get_by_role("button", name="Ask again")).to_be_visible()


def test_a_request_that_is_refused_names_what_is_wrong(new_page):
    page = new_page()
    page.route("**/v1/answers", lambda route: route.continue_(post_data=json.dumps({"question": "a", "top_k": 10**6})))
    ask(page, AGES)
    expect(page.get_by_role("alert")).to_contain_text("top_k")


def test_where_a_key_is_asked_for_it_can_be_given_on_the_spot(new_page, second_gateway, tmp_path):
    keys = tmp_path / "keys.json"
    keys.write_text(json.dumps([{"name": "one", "sha256": hashlib.sha256(b"ps-secret").hexdigest()}]))
    with second_gateway(GATEWAY_API_KEYS_FILE=str(keys)) as url:
        page = new_page(url)
        ask(page, AGES)
        alert = page.get_by_role("alert")
        alert.get_by_label("API key").fill("ps-secret")
        alert.get_by_role("button", name="Ask again").click()
        expect(page.locator(".answer bdi")).to_have_text("Camille Pissarro", timeout=20_000)
        assert page.evaluate("localStorage.getItem('parallelsearch.api-key')") is None


def test_a_stream_that_breaks_off_goes_on_where_it_was(new_page, gateway_url):
    with severed_proxy(int(gateway_url.rpartition(":")[2])) as (port, sever):
        page = new_page(f"http://127.0.0.1:{port}")
        asked = []
        page.on("request", lambda sent: asked.append(f"{sent.method} {sent.url}") if "/v1/answers" in sent.url else None)
        ask(page, AGES)
        page.locator(".lane[data-state=waiting]").first.wait_for()
        sever()
        settled(page)
        expect(page.locator(".answer bdi")).to_have_text("Camille Pissarro")
        expect(page.locator(".lane[data-state=done]")).to_have_count(2)
        expect(page.locator(".lane")).to_have_count(2)
        expect(page.get_by_role("alert")).to_have_count(0)
        assert [request.partition(" ")[0] for request in asked[:2]] == ["POST", "GET"]
        assert asked[1].endswith("/events")
        assert sum(request.startswith("POST") for request in asked) == 1


def test_a_stream_that_is_not_held_any_more_is_lost(new_page, second_gateway):
    with second_gateway(GATEWAY_STREAM_GRACE_S="0") as url, severed_proxy(int(url.rpartition(":")[2])) as (port, sever):
        page = new_page(f"http://127.0.0.1:{port}")
        ask(page, AGES)
        page.locator(".lane[data-state=waiting]").first.wait_for()
        sever()
        expect(page.get_by_role("alert")).to_contain_text("The connection was lost")
        expect(page.locator(".lane[data-state=unfinished]")).to_have_count(2)


def test_a_lost_stream_says_so_and_the_question_can_be_asked_again_when_the_gateway_is_back(new_page, second_gateway):
    with second_gateway() as url:
        page = new_page(url)
        ask(page, AGES)
        page.locator(".lane[data-state=waiting]").first.wait_for()
    alert = page.get_by_role("alert")
    expect(alert).to_contain_text("The connection was lost")
    expect(page.locator(".lane[data-state=unfinished]")).to_have_count(2)
    with second_gateway(port=int(url.rpartition(":")[2])):
        alert.get_by_role("button", name="Ask again").click()
        expect(page.locator(".answer bdi")).to_have_text("Camille Pissarro", timeout=20_000)


def test_how_it_is_asked_stays_chosen_when_one_looks_elsewhere(new_page):
    page = new_page()
    models = {"data": [{"id": name} for name in ("parallelsearch", "parallelsearch:mine", "other")]}
    page.route("**/v1/models", lambda route: route.fulfill(json=models))
    page.reload()
    page.get_by_text("Model and limits").click()
    chosen = {"Model": "other", "Index": "mine", "Cache": "bypass"}
    limits = {"Passages a sub-query": "7", "Searches at most": "2", "Sub-queries a search": "5", "Deadline in seconds": "30"}
    for label, value in chosen.items():
        page.get_by_label(label).select_option(value)
    for label, value in limits.items():
        page.get_by_label(label).fill(value)
    page.get_by_label("No search").check()
    page.get_by_role("link", name="History").click()
    page.get_by_role("link", name="Ask", exact=True).click()
    page.get_by_text("Model and limits").click()
    for label, value in (chosen | limits).items():
        expect(page.get_by_label(label)).to_have_value(value)
    expect(page.get_by_label("No search")).to_be_checked()


def test_a_question_that_is_too_long_is_refused_in_words_and_not_cut(new_page):
    page = new_page()
    field = page.get_by_role("textbox", name="Question")
    field.focus()
    page.keyboard.insert_text("word " * 2_000 + "end?")
    assert field.input_value().endswith("end?")
    page.get_by_role("button", name="Ask", exact=True).click()
    expect(page.get_by_role("alert")).to_contain_text("8192 characters")


def test_examples_fill_the_question(new_page):
    page = new_page()
    example = page.locator(".kind button").first
    text = example.inner_text()
    example.click()
    expect(page.get_by_role("textbox", name="Question")).to_have_value(text)
