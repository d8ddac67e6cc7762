"""Weight, first paint, and traces of 20 turns and 200 sub-queries."""

import pytest
from web_actions import ask

pytestmark = pytest.mark.web

FRAMES_FOR_3_S = """async () => {
    const until = performance.now() + 3000;
    let frames = 0;
    while (performance.now() < until) {
        await new Promise(requestAnimationFrame);
        frames += 1;
    }
    return frames;
}"""


class MainThread:
    """Processor time of the page's main thread, which other work on the machine does not lengthen."""

    def __init__(self, page):
        self._page = page
        self._session = page.context.new_cdp_session(page)
        self._session.send("Performance.enable", {"timeDomain": "threadTicks"})

    def _busy_s(self):
        metrics = self._session.send("Performance.getMetrics")["metrics"]
        return next(metric["value"] for metric in metrics if metric["name"] == "TaskDuration")

    def ms_per_frame(self):
        before = self._busy_s()
        frames = self._page.evaluate(FRAMES_FOR_3_S)
        return (self._busy_s() - before) * 1000 / frames


def trajectory(turns=20, lanes=10):
    def sub_query(turn, number):
        passages = [{"id": f"p{i}", "title": "A title", "text": "Some words. " * 40, "score": 0.5} for i in range(3)]
        return {
            "query": f"What is thing {number} of turn {turn}?",
            "passages": passages,
            "cached": number == 1,
            "latency_ms": 20 + number,
        }

    def one(turn):
        observation = [sub_query(turn, number) for number in range(lanes)]
        action = {"type": "search", "queries": [each["query"] for each in observation], "dropped": 0}
        timings = {"policy_ms": 150, "search_ms": 40}
        return {"reasoning": "Thinking. " * 30, "action": action, "observation": observation, "timings": timings}

    rows = [one(turn) for turn in range(turns)]
    return {"id": "big", "question": "Many?", "answer": "Yes", "stop_reason": "answered", "turns": rows}


def test_the_first_paint_comes_within_a_second(new_page):
    page = new_page()
    paint = page.evaluate("performance.getEntriesByName('first-contentful-paint')[0].startTime")
    assert paint < 1_000, f"{paint:.0f} ms"


def test_no_request_leaves_the_host(new_page, gateway_url):
    page = new_page("/", expect_ready=False)
    asked = []
    page.on("request", lambda request: asked.append(request.url))
    page.reload()
    page.locator(".kind").first.wait_for()
    assert all(url.startswith((gateway_url, "data:")) for url in asked)


def test_twenty_turns_and_two_hundred_sub_queries_stay_smooth_while_they_replay(new_page):
    page = new_page()
    page.route("**/v1/answers/big", lambda route: route.fulfill(json=trajectory()))
    page.goto("/#/answers/big")
    page.locator(".lane").first.wait_for()
    assert page.locator(".lane").count() == 200
    page.get_by_role("button", name="Replay").click()
    busy = MainThread(page).ms_per_frame()
    assert busy < 16, f"{busy:.1f} ms of the main thread per frame"


def test_many_sub_queries_arriving_live_do_not_block_the_page(new_page):
    page = new_page()
    ask(page, "Ask very many things at once.", {"Sub-queries a search": 10, "Searches at most": 6})
    busy = MainThread(page).ms_per_frame()
    assert busy < 16, f"{busy:.1f} ms of the main thread per frame"
