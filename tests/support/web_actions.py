"""What a person does on the page."""

from pathlib import Path

AXE = Path(__file__).parents[2] / "services/gateway/web/node_modules/axe-core/axe.min.js"


def ask(page, question, options=None):
    """Asks and waits until there is something to watch. Options are the names of number fields."""
    page.get_by_role("textbox", name="Question").fill(question)
    if options:
        page.get_by_text("Model and limits").click()
    for label, value in (options or {}).items():
        page.get_by_label(label).fill(str(value))
    page.get_by_role("button", name="Ask", exact=True).click()
    page.locator(".trace").first.wait_for()


def settled(page):
    page.get_by_role("group", name="With this answer").wait_for(timeout=30_000)


def lane(page, query):
    return page.locator("button.row", has_text=query)


def overflow(page):
    """Pixels by which the page is wider than the window."""
    return page.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth")


def serious_faults(page):
    """What axe-core calls serious or critical, in words. Run from the debugger's side, which the page's policy does not bind."""
    page.evaluate(AXE.read_text() + "; undefined")
    found = page.evaluate("axe.run(document, {resultTypes: ['violations']})")
    return [
        f"{fault['id']}: {fault['help']}: {node['target']}"
        for fault in found["violations"]
        if fault["impact"] in {"serious", "critical"}
        for node in fault["nodes"]
    ]
