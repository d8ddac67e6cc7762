import json

import pytest
from playwright.sync_api import expect
from web_actions import ask, settled
from web_stand_ins import AGES

from parallelsearch.schemas.answers import ScoredTrajectoryModel, TrajectoryModel

pytestmark = pytest.mark.web


@pytest.fixture
def answered(new_page):
    page = new_page(permissions=["clipboard-read", "clipboard-write"])
    ask(page, AGES)
    settled(page)
    return page


def copied(page, what):
    page.get_by_role("button", name=f"Copy {what}").click()
    page.get_by_role("button", name="Copied").wait_for()
    return page.evaluate("navigator.clipboard.readText()")


def drop(page, name, content):
    page.evaluate(
        """([name, content]) => {
            const data = new DataTransfer();
            data.items.add(new File([content], name));
            for (const type of ["dragover", "drop"]) dispatchEvent(new DragEvent(type, { dataTransfer: data, cancelable: true }));
        }""",
        [name, content],
    )


def test_a_link_holds_the_whole_trajectory_and_replays_it_without_asking(answered, new_page):
    link = copied(answered, "link")
    assert "#/t/" in link
    page = new_page("/", expect_ready=False)
    asked = []
    page.on("request", lambda request: asked.append(request.url) if request.method == "POST" else None)
    page.goto(link)
    expect(page.locator(".answer bdi")).to_have_text("Camille Pissarro")
    expect(page.locator(".lane")).to_have_count(2)
    settled(page)
    page.get_by_role("button", name="Replay").click()
    assert asked == []


def test_replaying_fills_the_lanes_again(answered):
    def width():
        return answered.locator(".lane .bar").first.bounding_box()["width"]

    answered.wait_for_timeout(600)  # the axis comes to rest
    full = width()
    answered.get_by_role("button", name="Replay").click()
    answered.wait_for_timeout(60)
    assert width() < full
    answered.wait_for_timeout(4_000)
    assert width() == pytest.approx(full, abs=1)


def test_where_answers_are_kept_the_link_is_short_and_replays_what_was_kept(new_page, second_gateway, tmp_path):
    with second_gateway(GATEWAY_STORE_PATH=str(tmp_path / "answers.sqlite")) as url:
        page = new_page(url, permissions=["clipboard-read", "clipboard-write"])
        ask(page, AGES)
        settled(page)
        link = copied(page, "link")
        assert "#/answers/" in link
        other = new_page(url)
        other.goto(link)
        expect(other.locator(".answer bdi")).to_have_text("Camille Pissarro")


def test_an_answer_that_is_not_stored_is_a_problem_in_words(new_page):
    page = new_page("/#/answers/nowhere", expect_ready=False)
    expect(page.get_by_role("alert")).to_contain_text("Request id")


def test_a_broken_link_says_so(new_page):
    page = new_page("/#/t/abc", expect_ready=False)
    expect(page.get_by_role("alert")).to_contain_text("This link holds no trajectory")


def test_json_and_curl_are_copied(answered):
    assert json.loads(copied(answered, "JSON"))["answer"] == "Camille Pissarro"
    command = copied(answered, "curl")
    assert command.startswith("curl -s http://127.0.0.1:")
    assert AGES in command


def test_history_stays_in_the_browser(answered):
    answered.get_by_role("link", name="History").click()
    entry = answered.locator(".entries button")
    expect(entry).to_contain_text(AGES)
    entry.click()
    expect(answered.locator(".answer bdi")).to_have_text("Camille Pissarro")
    answered.get_by_role("link", name="History").click()
    answered.get_by_role("button", name="Forget all").click()
    expect(answered.locator(".entries")).to_have_count(0)


def test_a_dropped_file_of_several_is_listed_and_its_broken_lines_are_named(answered):
    whole = json.loads(copied(answered, "JSON"))
    rows = [
        json.dumps(whole),
        "{broken",
        json.dumps(whole | {"question": "The other one?", "answer": "1830"}),
        json.dumps({"turns": []}),
    ]
    drop(answered, "run.jsonl", "\n".join(rows))
    expect(answered.get_by_role("alert")).to_contain_text("Line 2 is not JSON.")
    expect(answered.get_by_role("alert")).to_contain_text("Line 4 has no question.")
    answered.get_by_label("Filter").fill("other")
    answered.locator(".entries button").click()
    expect(answered.locator(".answer bdi")).to_have_text("1830")


def test_a_dropped_trajectory_is_shown(answered):
    whole = json.loads(copied(answered, "JSON"))
    drop(answered, "one.json", json.dumps(whole, indent=2))
    expect(answered.get_by_role("heading", name="one.json")).to_be_visible()
    expect(answered.locator(".answer bdi")).to_have_text("Camille Pissarro")


def test_what_is_copied_is_a_whole_trajectory_wherever_it_was_opened(answered):
    """As `parallelsearch reward` and others read it, where a field that is none of a trajectory's is refused."""
    live = TrajectoryModel.model_validate_json(copied(answered, "JSON"))
    answered.get_by_role("link", name="History").click()
    answered.locator(".entries button").click()
    settled(answered)
    assert TrajectoryModel.model_validate_json(copied(answered, "JSON")) == live
    scored = live.model_dump(mode="json") | {"kind": "parallel", "golden_answers": ["Camille Pissarro"]}
    scored["turns"][-1]["action"]["opened"] = True
    scored["turns"][0]["observation"][0]["passages"][0]["metadata"] = {
        "source": "a.pdf",
        "page": 2,
        "section": "Birth",
        "author": "x",
    }
    scored["citations"][0]["section"] = "Birth"
    scored["policy"]["versions"] = ["1", "2"]
    drop(answered, "scored.json", json.dumps(scored))
    answered.get_by_role("heading", name="scored.json").wait_for()
    settled(answered)
    assert ScoredTrajectoryModel.model_validate_json(copied(answered, "JSON")) == ScoredTrajectoryModel.model_validate(scored)


@pytest.mark.parametrize("what", ["link", "JSON", "curl"])
def test_without_the_clipboards_interface_copying_works_and_leaves_the_focus_where_it_was(answered, what):
    answered.evaluate("Object.defineProperty(navigator, 'clipboard', { value: undefined })")
    button = answered.get_by_role("button", name=f"Copy {what}")
    button.focus()
    answered.keyboard.press("Enter")
    copied_button = answered.get_by_role("button", name="Copied")
    copied_button.wait_for()
    expect(copied_button).to_be_focused()


def test_what_could_not_be_copied_is_not_said_to_be(answered):
    answered.evaluate("Object.defineProperty(navigator, 'clipboard', { value: undefined }); document.execCommand = () => false")
    answered.get_by_role("button", name="Copy JSON").click()
    expect(answered.get_by_role("button", name="Not copied")).to_be_visible()
    expect(answered.locator("[aria-live=polite].sr")).to_have_text("JSON: the browser did not let it be copied.")


def test_a_dropped_file_that_cannot_be_read_says_so(answered):
    """A folder is such a file: its text cannot be had."""
    answered.evaluate("() => { File.prototype.text = () => Promise.reject(new DOMException('', 'NotFoundError')); }")
    drop(answered, "folder", "")
    expect(answered.get_by_role("alert")).to_contain_text("The file cannot be read.")
