"""Keyboard, screen reader, dark and light, small windows."""

import pytest
from playwright.sync_api import expect
from web_actions import ask, lane, overflow, serious_faults, settled
from web_stand_ins import AGES, BROKEN, MONET, PISSARRO

pytestmark = pytest.mark.web


def focused(page):
    return page.evaluate("document.activeElement.innerText || document.activeElement.getAttribute('aria-label') || ''")


def tab_to(page, text):
    for _ in range(80):
        page.keyboard.press("Tab")
        if text in focused(page):
            return
    raise AssertionError(f"Tab never came to {text!r}")


def test_everything_can_be_done_with_the_keyboard_alone(new_page):
    page = new_page()
    page.keyboard.press("/")
    page.keyboard.type(AGES)
    page.keyboard.press("Enter")
    settled(page)
    tab_to(page, MONET)
    expect(page.locator(".peek")).to_contain_text("14 November 1840")
    page.keyboard.press("ArrowDown")
    assert PISSARRO in focused(page)
    page.keyboard.press("Enter")
    expect(page.locator(".passages")).to_contain_text("10 July 1830")
    page.keyboard.press("Home")
    assert MONET in focused(page)
    tab_to(page, "Reasoning")
    page.keyboard.press("Enter")
    expect(page.locator(".reasoning p").first).to_be_visible()
    tab_to(page, "Copy JSON")


def test_the_first_tab_leads_past_the_header(new_page):
    page = new_page()
    page.keyboard.press("Tab")
    assert focused(page) == "Skip to content"
    page.keyboard.press("Enter")
    assert page.evaluate("document.activeElement.tagName") == "MAIN"


def test_progress_is_said_aloud_once_and_politely(new_page):
    page = new_page()
    page.evaluate(
        """() => {
            window.said = [];
            const voice = document.querySelector("[aria-live=polite].sr");
            const hear = () => voice.textContent && window.said.push(voice.textContent);
            new MutationObserver(hear).observe(voice, { subtree: true, childList: true, characterData: true });
        }"""
    )
    ask(page, AGES)
    settled(page)
    assert page.evaluate("window.said") == [
        "The question was sent.",
        "Turn 1: searching 2 sub-queries at once.",
        "Answer: Camille Pissarro.",
    ]


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [1280, 360])
def test_axe_finds_no_serious_fault(new_page, scheme, width):
    page = new_page(width=width, color_scheme=scheme)
    assert serious_faults(page) == []
    page.get_by_label("Sequential beside it").check()
    ask(page, AGES)
    settled(page)
    lane(page, MONET).first.click()
    page.locator(".reasoning summary").first.click()
    assert serious_faults(page) == []
    page.get_by_role("button", name="Settings").click()
    assert serious_faults(page) == []
    page.keyboard.press("Escape")
    for view in ("History", "Training"):
        page.get_by_role("link", name=view).click()
        page.wait_for_timeout(500)
        assert serious_faults(page) == []


def test_axe_finds_no_serious_fault_in_a_failure(new_page):
    page = new_page()
    ask(page, BROKEN)
    page.get_by_role("alert").wait_for(timeout=20_000)
    assert serious_faults(page) == []


def test_a_phone_shows_it_all_without_scrolling_sideways(new_page):
    page = new_page(width=360, height=740, has_touch=True, is_mobile=True)
    assert overflow(page) == 0
    page.get_by_label("Sequential beside it").check()
    ask(page, AGES)
    settled(page)
    assert overflow(page) == 0
    lane(page, MONET).first.tap()
    expect(page.locator(".passages").first).to_contain_text("Claude Monet")
    page.get_by_text("Model and limits").tap()
    assert overflow(page) == 0
    for view in ("History", "Training"):
        page.get_by_role("link", name=view).tap()
        page.wait_for_timeout(300)
        assert overflow(page) == 0


def test_the_appearance_can_be_chosen_and_is_kept(new_page):
    page = new_page(color_scheme="light")
    ground = "getComputedStyle(document.body).backgroundColor"
    light = page.evaluate(ground)
    page.get_by_role("button", name="Settings").click()
    page.get_by_label("Appearance").select_option("dark")
    dark = page.evaluate(ground)
    assert light != dark
    page.reload()
    assert page.evaluate(ground) == dark


@pytest.mark.parametrize("width", [320, 360, 640])
def test_the_header_breaks_no_word_at_any_zoom(new_page, width):
    """320 pixels are what a zoom of 400 % leaves of 1280."""
    page = new_page(width=width)
    for word in page.locator("header nav a, header button").all():
        height, line = word.evaluate("""element => {
            const range = document.createRange();
            range.selectNodeContents(element);
            return [range.getBoundingClientRect().height, parseFloat(getComputedStyle(element).lineHeight)];
        }""")
        assert height <= line, word.inner_text()
    assert overflow(page) == 0


def test_the_focus_goes_with_the_view_that_what_was_pressed_leads_to(new_page):
    page = new_page()
    ask(page, AGES)
    settled(page)
    page.get_by_role("link", name="History").click()
    assert focused(page) == "History"
    tab_to(page, AGES)
    page.keyboard.press("Enter")
    settled(page)
    assert page.evaluate("document.activeElement.tagName") == "MAIN"


@pytest.mark.parametrize("room", ["localStorage", "sessionStorage"])
def test_a_browser_that_keeps_nothing_shows_the_page_all_the_same(new_page, room):
    page = new_page()
    page.add_init_script(
        f"Object.defineProperty(window, '{room}', {{ get() {{ throw new DOMException('blocked', 'SecurityError'); }} }})"
    )
    page.reload()
    ask(page, AGES)
    settled(page)
    expect(page.locator(".answer bdi")).to_have_text("Camille Pissarro")
    page.get_by_role("button", name="Settings").click()
    page.get_by_label("API key").fill("ps-a")
    page.get_by_label("Appearance").select_option("dark")
    page.get_by_role("button", name="Save").click()
    page.get_by_role("button", name="Settings").click()
    expect(page.get_by_label("API key")).to_have_value("ps-a")
    page.get_by_role("button", name="Cancel").click()
    page.get_by_role("link", name="History").click()
    expect(page.locator(".entries button")).to_contain_text(AGES)


def test_in_the_persons_own_colours_bars_are_seen_and_what_is_chosen_differs(new_page):
    page = new_page(forced_colors="active")
    ask(page, AGES)
    settled(page)
    colours = "(all, name) => [...new Set(all.map(each => getComputedStyle(each)[name]))]"
    ground = page.evaluate("getComputedStyle(document.body).backgroundColor")
    for bars in (".policy .bar", ".lane .bar", ".stage-policy", ".stage-search"):
        (shown,) = page.locator(bars).evaluate_all(colours, "backgroundColor")
        assert shown != ground, bars
    for chosen, others in (
        (".top nav [aria-current]", ".top nav a:not([aria-current])"),
        (".modes :checked + span", ".modes input:not(:checked) + span"),
    ):
        lines = [page.locator(each).evaluate_all(colours, "borderBottomColor") for each in (chosen, others)]
        assert lines[0] != [ground], chosen
        assert lines[1] == [ground], others
