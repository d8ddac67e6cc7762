import asyncio

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from parallelsearch.protocol.observations import LONGEST_WORD, Layout, count_words, cut_words
from parallelsearch.rollout.observation_fit import render_observation
from parallelsearch.rollout.settings import ObservationSettings
from parallelsearch.rollout.types import Passage, SubQueryResult
from parallelsearch.testing import WordCounter

MONET = Passage("m", "Claude Monet", "Claude Monet was a French painter born in 1840.", 0.9)
PISSARRO = Passage("p", "Camille Pissarro", "Camille Pissarro was born in 1830.", 0.8)


def render(results, *, budget=1_000, shown=(), **options):
    return asyncio.run(render_observation(results, ObservationSettings(**options), WordCounter(), budget=budget, shown=shown))


def test_labelled_layout_byte_for_byte():
    results = [SubQueryResult("When was Monet born?", (MONET, PISSARRO)), SubQueryResult("When was Pissarro born?", (PISSARRO,))]
    assert render(results).text == (
        "\n\n<information>Query 1: When was Monet born?\n"
        "Doc 1(Title: Claude Monet) Claude Monet was a French painter born in 1840.\n"
        "Doc 2(Title: Camille Pissarro) Camille Pissarro was born in 1830.\n"
        "Query 2: When was Pissarro born?\n"
        "Doc 1(Title: Camille Pissarro) Camille Pissarro was born in 1830.</information>\n\n"
    )


def test_a_single_query_has_no_label():
    assert render([SubQueryResult("q", (PISSARRO,))]).text == (
        "\n\n<information>Doc 1(Title: Camille Pissarro) Camille Pissarro was born in 1830.</information>\n\n"
    )


def test_compact_layout_refers_to_passages_already_shown():
    results = [SubQueryResult("a", (MONET,)), SubQueryResult("b", (MONET, PISSARRO))]
    text = render(results, layout=Layout.COMPACT, shown={"p"}).text
    assert text == (
        "\n\n<information>Query 1: a\nDoc 1(Title: Claude Monet) Claude Monet was a French painter born in 1840.\n"
        "Query 2: b\nDoc 1(Title: Claude Monet) shown above\nDoc 2(Title: Camille Pissarro) shown above</information>\n\n"
    )


def test_paper_layout_byte_for_byte():
    results = [SubQueryResult("a", (MONET, PISSARRO)), SubQueryResult("b", (PISSARRO,))]
    assert render(results, layout=Layout.PAPER).text == (
        '\n\n<information>Doc 1(Title: "Claude Monet") Claude Monet was a French painter born in 1840.\n'
        'Doc 2(Title: "Camille Pissarro") Camille Pissarro was born in 1830.\n'
        'Doc 1(Title: "Camille Pissarro") Camille Pissarro was born in 1830.</information>\n\n'
    )


def test_paper_cut_as_published_loses_the_closing_tag_and_tag_safe_keeps_it():
    results = [SubQueryResult("a", (MONET, PISSARRO))]
    published = render(results, layout=Layout.PAPER, budget=8, paper_cut="published")
    safe = render(results, layout=Layout.PAPER, budget=8, paper_cut="tag_safe")
    assert "</information>" not in published.text
    assert published.tokens == 8
    assert safe.text.endswith("</information>\n\n")


@pytest.mark.parametrize(("layout", "tokens"), [(Layout.LABELLED, 1_500), (Layout.COMPACT, 1_500), (Layout.PAPER, 1_000)])
def test_further_sub_queries_have_tokens_of_their_own_but_in_the_published_layout(layout, tokens):
    assert [ObservationSettings(layout=layout).budget(sub_queries) for sub_queries in (1, 2, 4)] == [1_000, 1_000, tokens]


def test_words_per_passage_depend_on_the_number_of_sub_queries():
    long = Passage("l", "T", " ".join(f"w{i}" for i in range(200)))
    two = render([SubQueryResult(q, (long,)) for q in "ab"]).text
    three = render([SubQueryResult(q, (long,)) for q in "abc"]).text
    assert "w119" in two
    assert "w120" not in two
    assert "w59" in three
    assert "w60" not in three


def test_what_one_sub_query_leaves_is_given_to_the_others():
    long = Passage("l", "T", " ".join(f"w{i}" for i in range(100)))
    short = Passage("s", "T", "tiny")
    text = render([SubQueryResult("a", (long,)), SubQueryResult("b", (short,))], budget=90).text
    assert "tiny" in text
    assert "w50" in text


WORDS = st.lists(st.sampled_from(["alpha", "</information>", "<answer>", "x", "<|im_end|>", "##"]), max_size=150).map(" ".join)
PASSAGES = st.builds(Passage, id=st.sampled_from("abcdef"), title=WORDS, text=WORDS)
RESULTS = st.lists(
    st.builds(SubQueryResult, st.sampled_from(["q one", "<search> q </search>"]), st.lists(PASSAGES, max_size=4).map(tuple)),
    min_size=1,
    max_size=6,
)


@settings(max_examples=60, deadline=None)
@given(RESULTS, st.integers(200, 2_000), st.sampled_from([Layout.LABELLED, Layout.COMPACT]))
def test_an_observation_keeps_budget_tags_and_sub_queries(results, budget, layout):
    rendered = render(results, budget=budget, layout=layout)
    text = rendered.text
    assert rendered.tokens == len(text.split())
    assert text.count("<information>") == text.count("</information>") == 1
    assert text.startswith("\n\n<information>")
    assert text.endswith("</information>\n\n")
    assert "<answer>" not in text
    assert "<|im_end|>" not in text
    if len(results) > 1:
        for number in range(1, len(results) + 1):
            assert f"Query {number}: " in text
    # Labels are at most a few words here, so that the budget can always be kept.
    assert rendered.tokens <= budget


@pytest.mark.parametrize("layout", list(Layout))
def test_no_passage_at_all_is_an_empty_observation(layout):
    assert render([SubQueryResult("q", ())], layout=layout).text == "\n\n<information></information>\n\n"


class CharacterCounter(WordCounter):
    """About what a tokenizer makes of scripts without blanks."""

    async def count(self, text):
        return len(text)


UNSPACED = [
    "莫奈是法国画家，生于一八四〇年。",
    "モネはフランスの画家である。",
    "โกลดมอแนเป็นจิตรกร",
    "https://example.org/a/b?c=d&e=f/",
]


@pytest.mark.parametrize("sentence", UNSPACED)
@pytest.mark.parametrize("budget", [300, 1_000, 3_000])
def test_text_without_blanks_is_cut_to_the_budget_and_not_left_out(sentence, budget):
    passages = tuple(Passage(str(number), "T", f"{number}" + sentence * 200) for number in range(3))
    results = [SubQueryResult("q", passages)]
    text = asyncio.run(render_observation(results, ObservationSettings(), CharacterCounter(), budget=budget)).text
    assert budget / 2 < len(text) <= budget
    for passage in passages:
        line = next(line for line in text.split("\n") if f") {passage.id}" in line)
        assert len(line) > budget / 6
        assert passage.text.startswith(line.partition(") ")[2].removesuffix("</information>"))


@given(st.lists(st.text(alphabet="ab莫 \n", max_size=120), max_size=5), st.integers(0, 12))
def test_a_cut_is_a_beginning_of_so_many_words(pieces, words):
    text = " ".join(pieces)
    cut = cut_words(text, words)
    assert " ".join(text.split()).startswith(cut)
    assert count_words(cut) == min(words, count_words(text))
    assert cut_words(cut, words) == cut


@given(st.lists(st.text(alphabet="ab", min_size=1, max_size=LONGEST_WORD), max_size=20), st.integers(0, 20))
def test_text_with_blanks_is_cut_between_words(words, number):
    assert cut_words("  ".join(words), number) == " ".join(words[:number])
