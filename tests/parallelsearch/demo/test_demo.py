"""The demo corpus and its question files hold together: ids, golds, graphs and kinds."""

import json
import re
import unicodedata

import pytest

from parallelsearch.demo import demo_file

CORPUS = demo_file("corpus.jsonl")
FILES = {"demo": demo_file("questions.jsonl"), "graph": demo_file("graph_questions.jsonl")}
KINDS = {"parallel", "sequential", "hybrid", "single"}
TYPES = {"comparison", "bridge", "compositional", "inference", "bridge_comparison", "single"}
TAG = re.compile(r"</?(think|search|information|answer)>|<\|[^>]*\|>|##", re.I)
CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\u200b-\u200f\u2028\u2029\ufeff]")


def rows(path):
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


PASSAGES = {p["id"]: p for p in rows(CORPUS)}
SETS = {k: rows(p) for k, p in FILES.items()}
ALL = [q for s in SETS.values() for q in s]
each = pytest.mark.parametrize("q", ALL, ids=[q["id"] for q in ALL])


def depth(q):
    """longest chain, in nodes; fails on a cycle or on an unknown id"""
    by = {s["id"]: s for s in q["sub_questions"]}
    assert len(by) == len(q["sub_questions"])
    memo = {}

    def d(i, path=()):
        assert i in by and i not in path, (q["id"], i)
        if i not in memo:
            memo[i] = 1 + max((d(j, (*path, i)) for j in by[i]["depends_on"]), default=0)
        return memo[i]

    return max(d(i) for i in by)


def number(answer):
    months = [
        "January",
        "February",
        "March",
        "April",
        "May",
        "June",
        "July",
        "August",
        "September",
        "October",
        "November",
        "December",
    ]
    m = re.search(r"(\d{{1,2}}) ({}) (\d{{3,4}})".format("|".join(months)), answer)
    if m:
        return int(m[3]), months.index(m[2]) + 1, int(m[1])
    m = re.search(r"\d[\d,]*", answer)
    return (int(m[0].replace(",", "")), 0, 0) if m else None


def leaves(q):
    used = {d for s in q["sub_questions"] for d in s["depends_on"]}
    return [s for s in q["sub_questions"] if s["id"] not in used]


def test_counts():
    assert len(PASSAGES) >= 320 and len(PASSAGES) == len(rows(CORPUS))
    assert len({p["title"] for p in PASSAGES.values()}) >= 160
    assert len(SETS["demo"]) >= 72 and len(SETS["graph"]) == 120
    kinds = {k: sum(q["kind"] == k for q in SETS["demo"]) for k in KINDS}
    assert kinds["parallel"] >= 28 and kinds["sequential"] >= 18 and kinds["hybrid"] >= 12 and kinds["single"] >= 14
    g = SETS["graph"]
    honest = [q for q in g if not q.get("trap")]
    assert sum(bool(q.get("trap")) for q in g) == 20
    assert [sum(q["kind"] == k for q in honest) for k in ("parallel", "sequential", "hybrid")] == [45, 35, 20]
    assert {len(q["sub_questions"]) for q in honest if q["kind"] == "parallel"} == {2, 3, 4, 5, 6}
    assert {depth(q) for q in honest if q["kind"] == "sequential"} == {2, 3, 4}
    assert all(q["kind"] in ("sequential", "single") for q in g if q.get("trap"))


def test_first_question_and_required_entities():
    q = SETS["demo"][0]
    assert q["question"] == "Who is older, Claude Monet or Camille Pissarro?" and q["golden_answers"] == ["Camille Pissarro"]
    m = [q for q in ALL if q["question"] == "Are the Laleli Mosque and Esma Sultan Mansion located in the same neighborhood?"]
    assert len(m) == 1 and m[0]["golden_answers"] == ["no"]
    titles = {p["title"] for p in PASSAGES.values()}
    assert {"Claude Monet", "Camille Pissarro", "Laleli Mosque", "Esma Sultan Mansion"} <= titles


def test_unique():
    ids = [q["id"] for q in ALL]
    assert len(set(ids)) == len(ids)
    texts = [re.sub(r"\W+", " ", q["question"]).casefold().strip() for q in ALL]
    assert len(set(texts)) == len(texts)
    bodies = [p["text"] for p in PASSAGES.values()]
    assert len(set(bodies)) == len(bodies)
    for k, s in SETS.items():
        assert [q["id"] for q in s] == [f"{k}-{i:03d}" for i in range(1, len(s) + 1)]


def test_passages():
    for p in PASSAGES.values():
        assert re.fullmatch(r"[a-z0-9]+(-[a-z0-9]+)*-\d+", p["id"]), p["id"]
        assert 30 <= len(p["text"].split()) <= 110, p["id"]
        for t in (p["title"], p["text"]):
            assert t == t.strip() and unicodedata.is_normalized("NFC", t) and "  " not in t, p["id"]
            assert not CONTROL.search(t) and not TAG.search(t), p["id"]
        assert p["text"].endswith((".", '"', "”")), p["id"]


@each
def test_shape(q):
    assert q["kind"] in KINDS and q["type"] in TYPES and q["question"].endswith("?") and q["golden_answers"]
    for t in [q["question"]] + q["golden_answers"] + [s["question"] for s in q["sub_questions"]]:
        assert t.strip() == t and t and not CONTROL.search(t) and not TAG.search(t) and unicodedata.is_normalized("NFC", t)
    assert q["supporting_passages"] and len(set(q["supporting_passages"])) == len(q["supporting_passages"])
    assert all(p in PASSAGES for p in q["supporting_passages"])
    assert q["supporting_titles"] == list(dict.fromkeys(PASSAGES[p]["title"] for p in q["supporting_passages"]))
    assert {s["passage"] for s in q["sub_questions"]} == set(q["supporting_passages"])


@each
def test_answers_are_in_the_passages(q):
    support = " \n ".join(PASSAGES[p]["title"] + " " + PASSAGES[p]["text"] for p in q["supporting_passages"]) + " " + q["question"]
    for g in q["golden_answers"]:
        assert g in ("yes", "no") or g.casefold() in support.casefold(), g
    for s in q["sub_questions"]:
        assert s["answer"].casefold() in PASSAGES[s["passage"]]["text"].casefold(), s


@each
def test_kind_agrees_with_the_graph(q):
    d = depth(q)
    roots = sum(not s["depends_on"] for s in q["sub_questions"])
    n = len(q["sub_questions"])
    if q["kind"] == "parallel":
        assert roots >= 2 and d == 1
    elif q["kind"] == "sequential":
        assert d >= 2 and roots == 1 and n == d
    elif q["kind"] == "hybrid":
        assert roots >= 2 and d >= 2
    else:
        assert n == 1
    if q["type"] in ("comparison", "bridge_comparison"):
        assert q["kind"] == {"comparison": "parallel", "bridge_comparison": "hybrid"}[q["type"]]
    if q["kind"] in ("sequential", "single"):
        assert q["sub_questions"][-1]["answer"] == q["golden_answers"][0]


@each
def test_a_chain_names_what_it_found(q):
    """a dependent sub-question contains the answer it depends on (or its last word)"""
    by = {s["id"]: s for s in q["sub_questions"]}
    for s in q["sub_questions"]:
        for d in s["depends_on"]:
            assert by[d]["answer"].split()[-1].casefold() in s["question"].casefold(), s


MIN = re.compile(
    r"born first|born earlier|older|oldest|died first|came out first|released first|released earlier|first, "
    r"|earlier|earliest|came first|opened first|shortest|lowest|smallest",
    re.I,
)
MAX = re.compile(
    r"younger|youngest|born later|died later|recently|longer|longest|higher|highest|taller|tallest|newer|latest|later|last", re.I
)
SAME = re.compile(r"\b(same|both|all)\b", re.I)


@each
def test_verdict_is_what_the_sub_answers_give(q):
    if q["kind"] not in ("parallel", "hybrid") or "check" in q:
        return
    ends = [s["answer"] for s in leaves(q)]
    if q["golden_answers"][0] in ("yes", "no"):
        assert SAME.search(q["question"])
        assert q["golden_answers"][0] == ("yes" if len(set(ends)) == 1 else "no")
        return
    values = [number(e) for e in ends]
    assert all(values) and len({v[0] if not v[1] else v for v in values}) == len(values)
    lo, hi = MIN.search(q["question"]), MAX.search(q["question"])
    assert bool(lo) != bool(hi), q["question"]
    want = (min if lo else max)(values)
    gold = q["golden_answers"][0]
    # the gold is named in the question; options stand in the order of the roots
    options = re.split(r", | or ", q["question"].rstrip("?").split(", ", 1)[1])
    options = [re.sub(r"^the (?=[A-Z])", "", o) for o in options if o]
    if len(options) == len(values) and gold in options:
        assert options[values.index(want)] == gold, (options, values)
    else:
        assert gold in q["question"] or gold in [s["answer"] for s in q["sub_questions"]]
