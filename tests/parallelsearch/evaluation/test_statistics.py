import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import permutation_test

from parallelsearch.evaluation.metrics import BY_NAME
from parallelsearch.evaluation.reports import numbers
from parallelsearch.evaluation.statistics import (
    Interval,
    cohens_h,
    macro_mean,
    mcnemar,
    paired_bootstrap,
    paired_quantiles,
    quantile_interval,
    ratio_intervals,
    ratios,
)


def mean(*values):
    return np.array([values], dtype=float), np.ones((1, len(values)))


def test_a_bootstrap_interval_of_a_mean_is_that_of_theory():
    values = np.random.default_rng(1).normal(10, 2, 400)
    (interval,) = ratio_intervals(*mean(*values), seed=0)
    half = 1.96 * values.std(ddof=1) / 20

    assert interval.low == pytest.approx(values.mean() - half, abs=0.05)
    assert interval.high == pytest.approx(values.mean() + half, abs=0.05)


def test_the_interval_covers_the_truth_about_as_often_as_it_says():
    generator = np.random.default_rng(2)
    covered = 0
    for trial in range(200):
        sample = (generator.random(150) < 0.4).astype(float)
        (interval,) = ratio_intervals(*mean(*sample), seed=trial, resamples=400)
        covered += interval.low <= 0.4 <= interval.high

    assert 178 <= covered <= 200


def test_the_same_seed_gives_the_same_bits_and_metrics_share_their_draws():
    one = mean(*range(50))
    twice = (np.concatenate([one[0]] * 2), np.concatenate([one[1]] * 2))

    assert ratio_intervals(*one, seed=3) == ratio_intervals(*one, seed=3) != ratio_intervals(*one, seed=4)
    assert ratio_intervals(*twice, seed=3) == ratio_intervals(*one, seed=3) * 2


def test_what_is_not_defined_counts_in_neither_sum():
    tops = np.array([[1.0, np.nan, 3.0], [np.nan] * 3, [1.0, 1.0, 1.0]])
    bottoms = np.array([[1.0, 1.0, 1.0], [1.0] * 3, [0.0, 0.0, 0.0]])

    assert ratios(tops, bottoms) == [2.0, None, None]
    assert ratio_intervals(tops, bottoms, seed=0)[1:] == [None, None]


def test_many_questions_are_drawn_in_chunks_to_the_same_effect():
    values = np.random.default_rng(5).random(9_000)
    (interval,) = ratio_intervals(*mean(*values), seed=0, resamples=1_000)

    assert interval.high - interval.low == pytest.approx(2 * 1.96 * values.std() / 9_000**0.5, rel=0.1)


def test_nothing_has_no_interval():
    empty = (np.empty((1, 0)), np.empty((1, 0)))

    assert ratio_intervals(*empty, seed=0) == [None]
    assert quantile_interval(np.array([]), 0.5, seed=0) is None
    assert paired_bootstrap(empty, empty, seed=0) == [None]


def test_mcnemar_is_the_exact_binomial_on_the_discordant_pairs():
    a = np.array([1] * 10 + [1] * 8 + [0] * 2 + [0] * 5)
    b = np.array([1] * 10 + [0] * 8 + [1] * 2 + [0] * 5)
    found = mcnemar(a, b)

    assert (found.both, found.only_a, found.only_b, found.neither) == (10, 8, 2, 5)
    assert found.p == pytest.approx(0.109375)
    assert found.odds_ratio == 4
    assert mcnemar(a, a).p == 1.0
    assert mcnemar(a, a).odds_ratio is None


def test_a_paired_difference_is_seen_where_the_runs_alone_would_hide_it():
    generator = np.random.default_rng(0)
    hard = generator.normal(0, 10, 100)
    a, b = mean(*(hard + 1 + generator.normal(0, 0.5, 100))), mean(*hard)
    (found,) = paired_bootstrap(a, b, seed=0)

    assert found.difference == pytest.approx(1, abs=0.2)
    assert found.interval.low > 0.8
    assert found.p == pytest.approx(2 / 2_001)
    assert found.effect == pytest.approx(2, abs=0.4)


def test_no_difference_is_no_finding():
    (same,) = paired_bootstrap(mean(1, 2, 3), mean(1, 2, 3), seed=0)

    assert (same.difference, same.p, same.interval, same.effect) == (0, 1.0, Interval(0.0, 0.0), None)
    assert same.relative == 1.0


def test_a_ratio_of_sums_is_compared_with_its_own_interval():
    calls_a, calls_b = np.array([[2.0, 2, 2, 2]]), np.array([[3.0, 3, 4, 3]])
    correct = np.array([[1.0, 0, 1, 1]])
    (found,) = paired_bootstrap((calls_a, correct), (calls_b, correct), seed=0)

    assert (found.a, found.b) == (pytest.approx(8 / 3), pytest.approx(13 / 3))
    assert found.relative_interval.low < 8 / 13 <= found.relative_interval.high
    assert found.effect is None


def test_quantiles_are_compared_as_a_ratio():
    b = np.random.default_rng(0).gamma(4, 100, 300)
    found = paired_quantiles(b * 0.7, b, 0.5, seed=0)

    assert found.relative == pytest.approx(0.7)
    assert found.interval.low == pytest.approx(0.7)
    assert paired_quantiles(b, b * 0, 0.5, seed=0).relative is None


def test_cohens_h():
    assert cohens_h(0.5, 0.5) == 0
    assert cohens_h(1, 0) == pytest.approx(np.pi)
    assert cohens_h(0.4, 0.6) == -cohens_h(0.6, 0.4)


@settings(max_examples=30, deadline=None)
@given(st.lists(st.floats(-1e6, 1e6), min_size=2, max_size=30))
def test_an_interval_lies_within_the_values(values):
    (interval,) = ratio_intervals(*mean(*values), seed=0, resamples=50)

    assert min(values) - 1e-6 <= interval.low <= interval.high <= max(values) + 1e-6


def test_one_question_has_no_interval_shows_no_difference_and_is_not_significant():
    one, other = mean(1.0), mean(0.0)
    assert ratio_intervals(*one, seed=0) == [None]
    assert quantile_interval(one[0][0], 0.5, seed=0) is None
    assert paired_quantiles(one[0][0], one[0][0], 0.5, seed=0).interval is None
    (found,) = paired_bootstrap(one, other, seed=0)
    assert (found.difference, found.interval, found.relative_interval, found.p) == (1.0, None, None, 1.0)
    assert numbers.verdict(BY_NAME["exact_match"], found) == "no difference shown"


def test_a_metric_that_one_question_of_many_defines_is_one_over_one_question():
    tops, bottoms = np.full((1, 9), np.nan), np.ones((1, 9))
    tops[0, 3] = 1.0
    assert ratio_intervals(tops, bottoms, seed=0) == [None]
    (found,) = paired_bootstrap((tops, bottoms), (tops * 0, bottoms), seed=0)
    assert (found.interval, found.p) == (None, 1.0)


@pytest.mark.parametrize("count", range(2, 9))
def test_a_p_is_never_less_than_the_exact_test_of_so_many_signs_can_give(count):
    a = np.random.default_rng(count).uniform(1, 2, count)
    (found,) = paired_bootstrap(mean(*a), mean(*(a * 0)), seed=0)
    exact = permutation_test((a,), np.mean, permutation_type="samples", n_resamples=np.inf).pvalue
    assert found.p >= exact
    assert (numbers.verdict(BY_NAME["exact_match"], found) == "A") == (exact < 0.05)


def test_sets_of_the_same_size_are_drawn_apart_for_the_mean_of_sets():
    values = np.random.default_rng(7).random(200)
    (alone,) = ratio_intervals(*mean(*values), seed=0)
    for other in (values, 1 - values):
        _, both = macro_mean([mean(*values), mean(*other)], seed=0)
        assert both.high - both.low == pytest.approx((alone.high - alone.low) / 2**0.5, rel=0.1)
