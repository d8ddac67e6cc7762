"""OpenRLHF's own arithmetic of advantages, run on rewards alone, without Ray and DeepSpeed."""

import importlib
import sys
import types
from contextlib import contextmanager
from types import SimpleNamespace

import torch
from openrlhf_parser import light_package

PACKAGES = ("", ".utils", ".models", ".trainer", ".trainer.ppo_utils", ".trainer.ray")
NOT_RUN = {
    "ray": (),
    "deepspeed": (),
    "openrlhf.trainer.ray.launcher": ("RayActorGroup",),
    "openrlhf.trainer.ppo_utils.experience": ("Experience",),
}
"""Modules that are imported and not reached, with the names that are taken from them."""


@contextmanager
def experience_maker(sources):
    """The class of these sources; nothing of it stays imported."""
    before = dict(sys.modules)
    for name in (f"openrlhf{package}" for package in PACKAGES):
        light_package(name, sources.joinpath(*name.split(".")))
    for name, attributes in NOT_RUN.items():
        module = sys.modules[name] = types.ModuleType(name)
        for attribute in attributes:
            setattr(module, attribute, type(attribute, (), {}))
    try:
        yield importlib.import_module("openrlhf.trainer.ppo_utils.experience_maker").RemoteExperienceMaker
    finally:
        for name in set(sys.modules) - set(before):
            if name.split(".")[0] in {"openrlhf", "ray", "deepspeed"}:
                del sys.modules[name]


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
