"""One training step of OpenRLHF's own code on the CPU: from the responses of our agent to the gradient of a tiny model."""

from concurrent.futures import ThreadPoolExecutor
from copy import deepcopy
from dataclasses import dataclass, field, replace
from threading import Barrier
from types import SimpleNamespace
from unittest import mock

import torch
from transformers import LlamaConfig, LlamaForCausalLM


@dataclass
class Strategy:
    """DeepSpeed's part: it divides every loss by the number of micro batches of a step. Nothing is updated."""

    args: SimpleNamespace
    accumulated_gradient: int
    ring_attn_group: None = None
    losses: list = field(default_factory=list)

    def backward(self, loss, model, optimizer):
        self.losses.append(loss.item())
        (loss / self.accumulated_gradient).backward()

    def optimizer_step(self, *_, **__):
        return None

    def get_grad_norm(self, model):
        return 0.0

    def all_reduce(self, values):
        return values

    def is_rank_0(self):
        return False

    def print(self, *_):
        return None


@dataclass
class Group:
    """OpenRLHF's group of Ray actors, which is one process here."""

    actor: object

    def async_run_method_batch(self, method_name, **lists):
        calls = zip(*lists.values(), strict=True)
        return [[getattr(self.actor, method_name)(**dict(zip(lists, values, strict=True))) for values in calls]]

    def async_run_method(self, method_name):
        return []


class Ranks:
    """What OpenRLHF asks of `torch.distributed` for its loss, over threads."""

    ReduceOp = SimpleNamespace(SUM="sum")

    def __init__(self, size):
        self._size, self._barrier, self._given = size, Barrier(size, timeout=60), []

    def is_available(self):
        return True

    is_initialized = is_available

    def get_world_size(self, group):
        return self._size

    def all_reduce(self, tensor, op, group):
        self._given.append(tensor.clone())
        self._barrier.wait()
        tensor.copy_(sum(self._given))
        if self._barrier.wait() == 0:
            self._given.clear()
        self._barrier.wait()


def tiny_model(vocabulary, seed):
    torch.manual_seed(seed)
    shape = {"hidden_size": 16, "intermediate_size": 32, "num_hidden_layers": 1, "num_attention_heads": 2}
    return LlamaForCausalLM(LlamaConfig(vocab_size=vocabulary, **shape)).eval()


def gradient_of(model):
    return torch.cat([parameter.grad.flatten() for parameter in model.parameters()])


@dataclass
class Step:
    """`load` imports OpenRLHF's modules, `args` are what its parser made of our command."""

    load: object
    args: SimpleNamespace
    tokenizer: object
    policy: torch.nn.Module
    reference: torch.nn.Module
    critic: object = None
    """What has `forward`, as OpenRLHF's critic."""

    def experiences(self, responses):
        """What the responses of our agent become, each with its advantages."""
        generator = object.__new__(self.load("openrlhf.trainer.ppo_utils.samples_generator").SamplesGenerator)
        read = generator._process_response_into_experience
        kl = SimpleNamespace(value=self.args.algo.kl.init_coef)
        policy, reference = self._workers(self.policy), self._workers(self.reference)
        critic = Group(self.critic) if self.critic else None
        maker = self.load("openrlhf.trainer.ppo_utils.experience_maker").RemoteExperienceMaker(
            policy, critic, None, reference, kl, self._strategy(1), self.tokenizer
        )
        return maker.make_experience_batch([read(response, max_len=self.args.data.max_len) for response in responses])

    def learn(self, experiences):
        """Leaves the gradient of the step in the policy and gives OpenRLHF's metrics of it."""
        self.policy.zero_grad()
        count = sum(len(experience.sequences) for experience in experiences)
        trainer = self.load("openrlhf.trainer.ray.ppo_actor").ActorPPOTrainer(
            self._strategy(count // self.args.train.micro_batch_size),
            self._actor(self.policy),
            None,
            None,
            SimpleNamespace(get_last_lr=lambda: [0.0]),
            micro_train_batch_size=self.args.train.micro_batch_size,
            dataloader_pin_memory=False,
        )
        for experience in experiences:
            trainer.replay_buffer.append(experience)
        return trainer.ppo_train(self.args.algo.kl.init_coef)

    def learn_on(self, ranks, experiences):
        """The gradient of the step shared out to so many GPUs: each learns from its part, and DeepSpeed takes the mean."""
        size, steps = len(experiences) // ranks, [replace(self, policy=deepcopy(self.policy)) for _ in range(ranks)]
        parts = [experiences[rank * size : (rank + 1) * size] for rank in range(ranks)]
        loss = self.load("openrlhf.utils.loss_utils")
        with mock.patch.object(loss, "dist", Ranks(ranks)), ThreadPoolExecutor(ranks) as threads:
            list(threads.map(Step.learn, steps, parts))
        return sum(gradient_of(step.policy) for step in steps) / ranks

    def _strategy(self, micro_batches):
        return Strategy(self.args, micro_batches)

    def _actor(self, model):
        actor = self.load("openrlhf.models").Actor(model, temperature=self.args.rollout.temperature)
        actor.packing_samples = False
        return actor

    def _workers(self, model):
        worker = object.__new__(self.load("openrlhf.trainer.ray.ppo_actor").PolicyModelActor)
        worker.actor, worker.strategy = self._actor(model), self._strategy(1)
        return Group(worker)
