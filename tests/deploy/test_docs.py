"""Links between the documents lead somewhere."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
DOCUMENTS = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"), *ROOT.glob("requirements/*.md")])


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_links_lead_somewhere(path):
    for target in re.findall(r"\]\(([^)#]+)(?:#[^)]*)?\)", path.read_text()):
        if "://" not in target and not target.startswith("mailto:"):
            assert (path.parent / target).exists(), f"{path.name} links to {target}"


def test_the_readme_leads_to_every_page():
    linked = set(re.findall(r"\]\((docs/[\w-]+\.md)[)#]", (ROOT / "README.md").read_text()))
    assert linked >= {f"docs/{path.name}" for path in ROOT.glob("docs/*.md")}


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_headings_differ_and_links_to_them_lead_somewhere(path):
    assert len(set(headings(path))) == len(headings(path))
    for target, heading in re.findall(r"\]\(([^)#:]*)#([^)]+)\)", path.read_text()):
        assert heading in headings(path.parent / target if target else path), f"{path.name} links to {target}#{heading}"


def headings(path):
    """The anchors that GitHub makes of them."""
    text = re.sub(r"^ *```.*?^ *```", "", path.read_text(), flags=re.M | re.S)
    return [re.sub(r"[^\w -]", "", title.lower()).replace(" ", "-") for title in re.findall(r"^#+ (.+)$", text, re.M)]


def test_what_every_service_counts_is_documented():
    counted = re.findall(r'"(parallelsearch_http_\w+)"', (ROOT / "packages/servicekit/src/servicekit/metrics.py").read_text())
    assert counted
    for name in counted:
        assert f"`{name}`" in (ROOT / "docs" / "operations.md").read_text()


def test_nobody_is_told_to_fetch_from_a_registry_what_is_in_none():
    ours = {path.parent.name for path in ROOT.glob("*/*/pyproject.toml")}
    texts = [*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"), *ROOT.glob("packages/**/*.py"), *ROOT.glob("services/**/*.py")]
    told = [re.findall(r"pip install ['\"]?([\w-]+)", path.read_text()) for path in texts]
    assert ours.isdisjoint(name for names in told for name in names)


RESULTS = ROOT / "docs" / "results"


def test_the_list_of_results_leads_to_every_page():
    linked = set(re.findall(r"\]\(([\w-]+\.md)\)", (RESULTS / "README.md").read_text()))
    assert linked == {path.name for path in RESULTS.glob("*.md")} - {"README.md"}


def test_figures_in_the_list_of_results_stand_in_the_pages():
    rows = [line.strip("|").split(" | ") for line in (RESULTS / "README.md").read_text().splitlines() if line.startswith("| ")]
    for _, _, measured, page in rows[1:]:
        text = (RESULTS / re.search(r"\((.+)\)", page)[1]).read_text()
        for figure in re.findall(r"\d[\d.]*", measured):
            assert re.search(rf"(?<![\d.]){re.escape(figure)}(?![\d])", text), f"{figure} of {page}"
