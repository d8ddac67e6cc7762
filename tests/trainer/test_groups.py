"""What a group of rollouts learns, by OpenRLHF's own arithmetic, of both versions."""

import sys
import types

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from openrlhf_advantages import advantages, experience_maker
from pydantic import ValidationError

from parallelsearch.schemas.training import MAX_SAMPLES, ReinforcementSpec
from trainer.groups import REWARD_BITS, Groups, exact

ESTIMATORS = ("group_norm", "dr_grpo")
REWARDS = [0.1, 0.45, 0.6, 0.9, 1.0, 1.35, 1.5, 1.8, 0.1 + 0.35, -0.35, 1234.567]


@pytest.fixture(params=["0.11.2", "0.10.4"])
def maker(request, openrlhf_sources):
    with experience_maker(openrlhf_sources(request.param)) as made:
        yield made


async def learnt_of(rewards):
    """What rollouts of one question with these rewards learn from, None being an excluded one."""
    groups = Groups()
    learnt = []
    with groups.member("q") as last:
        for reward in rewards:
            with groups.member("q") as member:
                learnt.append(await member.learn(reward))
        last.settle()
    return learnt


@pytest.mark.anyio
@pytest.mark.parametrize("estimator", ESTIMATORS)
@pytest.mark.parametrize("samples", [2, 3, 5, 6, 7, 8, 12, 16, 48, 64, 100])
async def test_rollouts_that_did_equally_well_learn_nothing(maker, estimator, samples):
    learnt = [await learnt_of([reward] * samples) for reward in REWARDS]

    assert [group[0] for group in learnt] == pytest.approx(REWARDS, rel=1e-4)
    found = advantages(maker, estimator, learnt)
    assert torch.equal(found, torch.zeros_like(found))


@pytest.mark.parametrize("reward", [0.9, 1.8])
def test_without_exact_rewards_they_would(maker, reward):
    assert (advantages(maker, "group_norm", [[reward] * 8]).abs() >= 0.5).all()


def test_real_modules_are_back_when_openrlhf_has_been_run_without_them(openrlhf_sources, monkeypatch):
    real = {name: types.ModuleType(name) for name in ("ray", "ray.util", "vllm", "datasets")}
    for name, module in real.items():
        monkeypatch.setitem(sys.modules, name, module)
    with experience_maker(openrlhf_sources("0.11.2")):
        assert sys.modules["vllm"] is not real["vllm"]
        assert "ray.util" not in sys.modules
    assert {name: sys.modules.get(name) for name in real} == real
    assert not any(name.startswith("openrlhf.") for name in sys.modules)


@given(st.floats(allow_nan=False, allow_infinity=False, min_value=-1e30, max_value=1e30), st.integers(2, MAX_SAMPLES))
def test_the_mean_of_equal_rewards_is_exact_in_float32(reward, samples):
    column = torch.full((samples,), exact(reward), dtype=torch.float32)

    assert column.mean() == column[0]
    assert exact(reward) == pytest.approx(reward, rel=2**-14)


def test_a_group_is_never_larger_than_what_is_exact():
    assert MAX_SAMPLES <= 2 ** (24 - REWARD_BITS)
    with pytest.raises(ValidationError, match="samples_per_prompt"):
        ReinforcementSpec(name="n", model="m", data="d", samples_per_prompt=MAX_SAMPLES + 1)


@given(st.floats(-10, 10), st.floats(-10, 10))
def test_exact_rewards_keep_their_order(one, other):
    assert (exact(one) < exact(other)) <= (one < other)
    assert exact(exact(one)) == exact(one)


@pytest.mark.anyio
async def test_a_better_rollout_is_told_from_a_worse(maker):
    learnt = await learnt_of([1.8, 1.8, 1.8, 0.45])
    found = advantages(maker, "group_norm", [learnt])[0]

    assert found.tolist() == pytest.approx([0.5, 0.5, 0.5, -1.5])
