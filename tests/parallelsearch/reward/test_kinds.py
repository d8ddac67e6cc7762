import pytest

from parallelsearch.reward.kinds import kind_of
from parallelsearch.rollout.types import Kind


@pytest.mark.parametrize(
    ("question_type", "kind"),
    [
        ("comparison", Kind.PARALLEL),
        ("bridge", Kind.SEQUENTIAL),
        ("compositional", Kind.SEQUENTIAL),
        ("inference", Kind.SEQUENTIAL),
        ("bridge_comparison", Kind.HYBRID),
        ("single", Kind.UNLABELLED),
        ("temporal", Kind.UNLABELLED),
        ("null", Kind.UNLABELLED),
        ("", Kind.UNLABELLED),
        (None, Kind.UNLABELLED),
        ("Comparison ", Kind.PARALLEL),
        ("anything else", Kind.UNLABELLED),
    ],
)
def test_the_kind_comes_from_the_type(question_type, kind):
    assert kind_of(question_type) is kind
