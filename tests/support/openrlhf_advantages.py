"""OpenRLHF's own arithmetic of advantages, run on rewards alone, without Ray and DeepSpeed."""

from contextlib import contextmanager
from types import SimpleNamespace

import torch
from openrlhf_training import training_code


@contextmanager
def experience_maker(sources):
    """The class of these sources; nothing of it stays imported."""
    with training_code(sources) as load:
        yield load("openrlhf.trainer.ppo_utils.experience_maker").RemoteExperienceMaker


def advantages(maker_class, estimator, groups):
    """Each rollout's advantage, of shape (groups, samples), as this estimator gives it for these rewards."""
    rewards = torch.tensor(groups, dtype=torch.float32)
    args = SimpleNamespace(
        algo=SimpleNamespace(advantage=SimpleNamespace(estimator=estimator, gamma=1.0, no_std_norm=False)),
        reward=SimpleNamespace(clip_range=(-10, 10)),
        rollout=SimpleNamespace(n_samples_per_prompt=rewards.shape[1], max_new_tokens=8),
        data=SimpleNamespace(max_len=8),
    )
    maker = maker_class.__new__(maker_class)
    maker.strategy, maker.args, maker.advantage_estimator = SimpleNamespace(args=args), args, estimator
    maker.kl_ctl = SimpleNamespace(value=0.0)
    experience = SimpleNamespace(
        index=list(range(rewards.numel())),
        rewards=rewards.flatten(),
        kl=torch.zeros(rewards.numel(), 1),
        action_mask=torch.ones(rewards.numel(), 1),
        info={},
    )
    maker.compute_advantages_and_returns([experience])
    return experience.advantages.reshape(rewards.shape)
