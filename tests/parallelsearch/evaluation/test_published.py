"""The paper's evaluation function against ours. It is told here in our words from its published description and code:

the text that is scored is prompt and rollout together; the prediction is the inside of the last `<answer>` block of at least two
it is right if its SQuAD normalisation equals that of a gold answer. The prompt itself holds two such blocks, "and" (from "inside
<answer> and </answer>") and its example, so a rollout without an answer is taken to have answered "Beijing".
"""

import json
import re
import string

import pytest
from shared_data import shared_data

from parallelsearch.evaluation.published import trajectory_from_text
from parallelsearch.protocol.prompt import build_prompt
from parallelsearch.reward.exact_match import cover_match, exact_match, f1
from parallelsearch.rollout.types import Mode, Search


def published_prediction(prompt, rollout):
    blocks = re.findall("<answer>(.*?)</answer>", prompt + rollout, re.DOTALL)
    return blocks[-1].strip() if len(blocks) > 1 else None


def published_exact_match(prediction, golden_answers):
    def plain(text):
        kept = "".join(character for character in text.lower() if character not in string.punctuation)
        return " ".join(re.sub(r"\b(a|an|the)\b", " ", kept).split())

    return prediction is not None and plain(prediction) in {plain(gold) for gold in golden_answers}


def traces():
    path = shared_data() / "rollout_traces.jsonl"
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def test_both_agree_on_every_published_rollout_and_with_its_own_scores():
    rows = traces()
    assert len(rows) == 100
    for row in rows:
        prompt = build_prompt(row["question"], Mode.PARALLEL, final_newline=True)
        theirs = published_prediction(prompt, row["response"])
        ours = trajectory_from_text(row["id"], row["question"], row["response"]).answer

        assert theirs == ("Beijing" if ours is None else ours)
        assert (ours or "") == row["pred"].strip()
        verdicts = {exact_match(ours, row["golden_answers"]), published_exact_match(theirs, row["golden_answers"])}
        assert verdicts == {bool(row["metric_score"]["em"])}


def test_f1_and_cover_match_agree_with_the_scores_of_the_published_rollouts():
    for row in traces():
        ours = trajectory_from_text(row["id"], row["question"], row["response"]).answer

        assert f1(ours, row["golden_answers"]) == pytest.approx(row["metric_score"]["f1"])
        assert cover_match(ours, row["golden_answers"]) == bool(row["metric_score"]["acc"])


def test_searches_and_their_passages_are_found_in_the_published_text():
    rollouts = [trajectory_from_text(row["id"], row["question"], row["response"]) for row in traces()]

    assert sum(rollout.usage.search_rounds for rollout in rollouts) == 76 + 2 * 21
    assert all(len(result.passages) == 3 for one in rollouts for turn in one.turns for result in turn.observation)


EXAMPLE = build_prompt("Who?", Mode.PARALLEL)
PASSAGE = '<information>Doc 1(Title: "T") An <answer> passage </answer> says it</information>'


@pytest.mark.parametrize(
    ("rollout", "theirs", "ours"),
    [
        ("<answer> Monet </answer>", "Monet", "Monet"),
        ("<answer> Monet </answer> or <answer> Manet </answer>", "Manet", "Monet"),
        (f"<search> who </search>\n\n{PASSAGE}\n\n", "passage", None),
        (f"<answer> Monet </answer>{PASSAGE}", "passage", "Monet"),
        ("no answer", "Beijing", None),
        ("<answer> Monet", "Beijing", None),
        ("<answer>  </answer>", "", None),
        ("<search> <answer> Monet </answer> </search>", "Monet", None),
    ],
)
def test_where_the_two_read_a_rollout_differently(rollout, theirs, ours):
    assert published_prediction(EXAMPLE, rollout) == theirs
    assert trajectory_from_text("t", "Who?", rollout).answer == ours


def test_without_the_prompts_example_the_published_function_finds_no_answer():
    assert published_prediction("Question: Who?", "<answer> Monet </answer>") is None
    assert trajectory_from_text("t", "Who?", "<answer> Monet </answer>").answer == "Monet"


def test_sub_queries_of_a_published_turn_get_the_passages_that_restart_the_numbering():
    block = 'Doc 1(Title: "A") a\nDoc 2(Title: "B") b\nDoc 1(Title: "C") c'
    rollout = trajectory_from_text(
        "t", "Q?", f"<think> x </think><search> one ## two </search>\n\n<information>{block}</information>"
    )
    (turn,) = rollout.turns

    assert isinstance(turn.action, Search)
    assert [[passage.title for passage in result.passages] for result in turn.observation] == [["A", "B"], ["C"]]
