"""What never answers, what answers in another's place, and what is asked again and again. Time goes 20 times as fast here."""

import pytest
from cutting_proxy import stalled_proxy
from playwright.sync_api import expect
from web_actions import ask, settled
from web_stand_ins import AGES

pytestmark = pytest.mark.web
FAST = """
setTimeout = (old => (then, ms) => old(then, ms / 20))(setTimeout);
AbortSignal.timeout = (old => ms => old.call(AbortSignal, ms / 20))(AbortSignal.timeout);
"""
RUN = {"id": "r1", "state": "running", "spec": {"name": "night", "kind": "reinforcement"}, "created_at": "2026-11-01T10:00:00Z"}
READ = ["answers/x", "documents", "documents/mine", "training", "training/r1"]


@pytest.fixture
def hurried(new_page):
    """`hurried(path)`: a page for which time goes fast."""

    def open_page(path="/"):
        page = new_page()
        page.add_init_script(FAST)
        page.goto(path)
        page.reload()
        return page

    return open_page


def silent(route):
    """Neither answers nor fails."""


@pytest.mark.parametrize("view", READ)
def test_what_does_not_answer_is_slow_and_not_away(hurried, view):
    page = hurried()
    page.route("**/v1/**", silent)
    page.goto(f"/#/{view}")
    alert = page.get_by_role("alert")
    expect(alert).to_contain_text("No answer in time")
    expect(alert.get_by_role("button", name="Try again")).to_be_visible()


def test_a_change_that_does_not_answer_is_slow_and_not_away(hurried):
    page = hurried()
    page.route("**/v1/training-runs/r1/checkpoints/4/promote", silent)
    page.route("**/v1/training-runs/r1", lambda route: route.fulfill(json=RUN))
    page.route("**/v1/training-runs/r1/metrics", lambda route: route.fulfill(json={"steps": []}))
    checkpoint = {"step": 4, "path": "p", "bytes": 1, "created_at": ""}
    page.route("**/v1/training-runs/r1/checkpoints", lambda route: route.fulfill(json={"checkpoints": [checkpoint]}))
    page.goto("/#/training/r1")
    page.get_by_role("button", name="Promote step 4").click()
    expect(page.get_by_role("alert")).to_contain_text("The policy may still be loading the checkpoint.", timeout=15_000)


@pytest.mark.parametrize("view", READ)
def test_a_page_that_stands_in_the_gateways_place_is_told_as_such(new_page, view):
    page = new_page()
    page.route("**/v1/**", lambda route: route.fulfill(body="<html>Log in", content_type="text/html"))
    page.goto(f"/#/{view}")
    expect(page.get_by_role("alert")).to_contain_text("This is no answer of the gateway")


@pytest.mark.parametrize("part", ["", "/metrics", "/checkpoints"])
def test_a_run_is_looked_at_further_after_a_look_that_failed(hurried, part):
    page, looks = hurried(), []

    def answer(route):
        looks.append(route.request.url)
        if len(looks) == 2:
            route.fulfill(status=503, json={"title": "Busy", "status": 503, "detail": "Not now."})
        else:
            route.fulfill(json={"": RUN, "/metrics": {"steps": []}, "/checkpoints": {"checkpoints": []}}[part])

    page.route("**/v1/training-runs/r1", lambda route: route.fulfill(json=RUN))
    page.route("**/v1/training-runs/r1/metrics", lambda route: route.fulfill(json={"steps": []}))
    page.route("**/v1/training-runs/r1/checkpoints", lambda route: route.fulfill(json={"checkpoints": []}))
    page.route(f"**/v1/training-runs/r1{part}", answer)
    page.goto("/#/training/r1")
    page.wait_for_timeout(2_500)
    assert len(looks) > 3
    expect(page.get_by_role("alert")).to_have_count(0)


def test_a_run_that_has_ended_is_not_looked_at_any_more(hurried):
    page, looks, state = hurried(), [], {"now": "running"}

    def answer(body):
        def fulfil(route):
            looks.append(route.request.url)
            route.fulfill(json=RUN | {"state": state["now"]} if body is None else body)

        return fulfil

    page.route("**/v1/training-runs/r1", answer(None))
    page.route("**/v1/training-runs/r1/metrics", answer({"steps": []}))
    page.route("**/v1/training-runs/r1/checkpoints", answer({"checkpoints": []}))
    page.goto("/#/training/r1")
    page.wait_for_timeout(1_000)
    assert len(looks) > 5
    state["now"] = "succeeded"
    page.wait_for_timeout(1_000)
    looks.clear()
    page.wait_for_timeout(1_000)
    assert looks == []


def test_a_stream_that_falls_silent_goes_on_over_another_connection(hurried, gateway_url):
    with stalled_proxy(int(gateway_url.rpartition(":")[2])) as (port, stall):
        page = hurried(f"http://127.0.0.1:{port}")
        asked = []
        page.on("request", lambda sent: asked.append(sent.method) if "/v1/answers" in sent.url else None)
        ask(page, AGES)
        page.locator(".lane[data-state=waiting]").first.wait_for()
        stall()
        settled(page)
        expect(page.locator(".answer bdi")).to_have_text("Camille Pissarro")
        assert asked[:2] == ["POST", "GET"]
