"""Which questions are the same: what is measured on is learnt in no other spelling, and no other question is taken for it."""

import json
import unicodedata

import pytest

from trainer.data.prompts import PromptSettings, prepare_prompts
from trainer.labels import PromptRow

ASKED = "Who wrote “Café-Society’s Fall” in the 1990s?"
ALIKE = {
    "straight quotes": ASKED.replace("“", '"').replace("”", '"').replace("’", "'"),
    "other quotes": ASKED.replace("“", "«").replace("”", "»"),
    "another dash": ASKED.replace("-", "\u2011"),
    "a space for a dash": ASKED.replace("-", " "),
    "no dash": ASKED.replace("-", ""),
    "decomposed": unicodedata.normalize("NFD", ASKED),
    "wide": ASKED.replace("1990", "１９９０").replace("?", "？"),
    "capitals": ASKED.upper(),
    "no article": ASKED.replace("the ", ""),
    "hard spaces": ASKED.replace(" ", "\u00a0"),
    "what is not seen": ASKED.replace("wrote", "wro\u00adte\u200b"),
    "marked": "\ufeff" + ASKED,
}


def learnt(folder, *rows):
    source, target = folder / "questions.jsonl", folder / "train.jsonl"
    source.write_text("".join(json.dumps({"id": "1", "golden_answers": ["A"], **row}) + "\n" for row in rows))
    prepare_prompts([str(source)], [], target, PromptSettings())
    return {PromptRow.model_validate_json(line).unpacked.question for line in target.read_bytes().splitlines()}


@pytest.mark.parametrize("alike", ALIKE)
def test_a_question_that_is_measured_on_is_not_learnt_in_another_spelling(tmp_path, alike):
    rows = [{"question": ASKED, "split": "eval"}, {"question": ALIKE[alike]}, {"question": "Another?"}]

    assert learnt(tmp_path, *rows) == {"Another?"}


@pytest.mark.parametrize(
    "questions",
    [
        {"Who was Ivo Café?", "Who was Ivo Cafe?"},
        {"कि?", "का?"},
        {"谁?", "谁的?"},
        {"x² or x³?", "x² or x⁴?"},
        {"?!", "!?"},
        {"🙂", "🙃"},
        {"The?", "A?"},
        {"In 1990?", "In 1991?"},
    ],
)
def test_different_questions_are_all_learnt(tmp_path, questions):
    assert learnt(tmp_path, *({"question": one} for one in questions)) == questions
