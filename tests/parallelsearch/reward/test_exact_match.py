import pytest
from hypothesis import given
from hypothesis import strategies as st

from parallelsearch.reward.exact_match import cover_match, exact_match, f1, normalise


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("The  Beatles!", "beatles"),
        ("a U.S. city", "us city"),
        ("An apple", "apple"),
        ("the", ""),
        ("Łódź", "łódź"),
        ("1,000", "1000"),
    ],
)
def test_normalisation_is_squads(text, expected):
    assert normalise(text) == expected


@pytest.mark.parametrize(
    ("prediction", "gold", "expected"),
    [
        ("Claude Monet.", ["claude monet"], True),
        ("the Claude Monet", ["X", "Claude Monet"], True),
        ("Monet", ["Claude Monet"], False),
        (None, [""], False),
        ("", ["the"], True),
    ],
)
def test_exact_match(prediction, gold, expected):
    assert exact_match(prediction, gold) is expected


@pytest.mark.parametrize(
    ("prediction", "gold", "expected"),
    [
        ("It was Claude Monet, surely", ["Claude Monet"], True),
        ("nobody", ["no"], False),
        ("x", ["the"], False),
        (None, ["x"], False),
    ],
)
def test_cover_match_goes_by_whole_words(prediction, gold, expected):
    assert cover_match(prediction, gold) is expected


@pytest.mark.parametrize(
    ("prediction", "gold", "expected"),
    [
        ("Claude Monet", ["Monet"], 2 / 3),
        ("yes", ["yes it is"], 0.0),
        ("yes", ["Yes."], 1.0),
        ("x", ["y", "x z"], 2 / 3),
        ("x", [], 0.0),
        (None, ["x"], 0.0),
    ],
)
def test_f1(prediction, gold, expected):
    assert f1(prediction, gold) == pytest.approx(expected)


@given(st.text(), st.lists(st.text(), min_size=1, max_size=3))
def test_an_exact_match_is_a_full_one_by_every_measure(prediction, gold):
    assert 0.0 <= f1(prediction, gold) <= 1.0
    if exact_match(prediction, gold):
        assert f1(prediction, gold) == 1.0
        assert cover_match(prediction, gold)
