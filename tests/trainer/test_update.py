"""What a step really learns: the gradient of OpenRLHF's own code, of both versions, against the one that is meant."""

import asyncio
from dataclasses import dataclass

import openrlhf_agent
import pytest
import torch
from agent_rollouts import ANSWER, LABEL, SEARCH, TOKENIZER, Retriever
from openrlhf_agent import SamplingParams, ScriptedEngine
from openrlhf_step import Step, gradient_of, tiny_model
from openrlhf_training import run_of, training_code

from trainer.groups import exact
from trainer.worker import RetrieverGate, Worker

WRONG = "<think> x </think> <answer> Monet </answer>"
RIGHT = "<answer> Camille Pissarro </answer>"
GROUPS = [[SEARCH, ANSWER], [WRONG], [RIGHT], [RIGHT]], [[RIGHT]] * 4, [[SEARCH], [WRONG], [RIGHT], [WRONG]]
"""Each rollout's turns. The third group's first one meets a fault of the retriever."""
ROLLOUT = {"turn_tokens": 200, "context_tokens": 2000, "temperature": 0.9}
KL_COEFFICIENT = 0.05


async def responses_of(agent, spec, folder):
    """Of `GROUPS` in OpenRLHF's loop, in order."""
    retriever = Retriever()
    worker = Worker(spec, folder, retriever.client, RetrieverGate(retriever.client, probe_every_s=0.01))
    executor = agent.AgentExecutor(worker)

    def rollout(draw, turns):
        label = LABEL.model_copy(update={"draw": draw}).model_dump_json()
        params = SamplingParams(max_tokens=200, logprobs=1 if spec.importance_correction else None)
        engine = ScriptedEngine(TOKENIZER, *turns)
        return executor.execute("Who?", label, params, spec.rollout.context_tokens, TOKENIZER, engine)

    found = []
    for draw, turns in enumerate(GROUPS):
        retriever.down = 9 if turns[0] == [SEARCH] else 0
        found += await asyncio.gather(*(rollout(draw, each) for each in turns))
    return found


@dataclass
class Meant:
    """The step as it is meant, of single rollouts without padding, batches or masks of log-probabilities."""

    spec: object
    policy: torch.nn.Module
    reference: torch.nn.Module
    responses: list

    def advantages(self):
        """Of each rollout, by its definition."""
        rewards = torch.tensor([response["reward"] for response in self.responses], dtype=torch.float64).reshape(len(GROUPS), -1)
        centred = rewards - rewards.mean(1, keepdim=True)
        if self.spec.algorithm == "grpo":
            deviations = rewards.std(1, keepdim=True)
            return torch.where(deviations > 0, centred / deviations, 0.0).flatten()
        tokens = torch.tensor([self.learnt(response).sum() for response in self.responses])
        each = centred.flatten().repeat_interleave(tokens)
        return (centred.flatten() - each.mean()) / each.std(correction=0)

    @staticmethod
    def learnt(response):
        """Whether the policy chose it, of each token."""
        chosen = torch.zeros(len(response["observation_tokens"]), dtype=torch.bool)
        for start, end in response["action_ranges"]:
            chosen[start:end] = True
        return chosen

    def log_probabilities(self, model, response):
        tokens = torch.tensor(response["observation_tokens"])
        logits = model(tokens[None]).logits[0, :-1] / self.spec.rollout.temperature
        return logits.log_softmax(-1).gather(1, tokens[1:, None])[:, 0][self.learnt(response)[1:]]

    def gradient(self):
        self.policy.zero_grad()
        losses = []
        for response, advantage in zip(self.responses, self.advantages(), strict=True):
            chosen = self.log_probabilities(self.policy, response)
            start = self.log_probabilities(self.reference, response).detach()
            weight = torch.ones_like(chosen)
            if self.spec.importance_correction:
                sampled = torch.tensor(response["rollout_log_probs"])[self.learnt(response)]
                weight = (chosen.detach() - sampled).exp().clamp(0.5, 5.0)
            ratio = start - chosen
            kl = ratio.exp() - 1 - ratio if self.spec.algorithm == "grpo" else ratio**2 / 2
            losses.append(-advantage * weight * chosen + self.spec.kl_coefficient * kl)
        torch.cat(losses).mean().backward()
        return gradient_of(self.policy)


@pytest.fixture(params=[("grpo", False), ("grpo", True), ("reinforce_baseline", False)], ids=["grpo", "corrected", "baseline"])
def step(request, openrlhf, tmp_path):
    """A step of three groups, and what is meant by it."""
    algorithm, corrected = request.param
    spec, args = run_of(
        openrlhf,
        algorithm=algorithm,
        importance_correction=corrected,
        prompts_per_step=len(GROUPS),
        samples_per_prompt=4,
        micro_batch=3,
        kl_coefficient=KL_COEFFICIENT,
        rollout=ROLLOUT,
    )
    with openrlhf_agent.agent_module(openrlhf.sources) as agent:
        responses = asyncio.run(responses_of(agent, spec, tmp_path))
    policy, reference = tiny_model(len(TOKENIZER), 0), tiny_model(len(TOKENIZER), 1)
    with training_code(openrlhf.sources) as load:
        yield Step(load, args, TOKENIZER, policy, reference), Meant(spec, policy, reference, responses)


def test_the_gradient_of_a_step_is_the_one_that_is_meant(step):
    learns, meant = step
    experiences = learns.experiences(meant.responses)
    learns.learn(experiences)
    found = gradient_of(learns.policy)

    assert sum(int(experience.action_mask.sum()) for experience in experiences) == sum(
        int(meant.learnt(response).sum()) for response in meant.responses
    )
    assert found.norm() > 0.01
    assert torch.allclose(found, meant.gradient(), atol=1e-5 * found.abs().max().item())


def test_a_step_shared_out_to_two_gpus_has_the_same_gradient(step):
    """The parts are of unlike length: two means of a part each would be another."""
    learns, meant = step
    experiences = learns.experiences(meant.responses)
    tokens = [sum(int(experience.action_mask.sum()) for experience in part) for part in (experiences[:2], experiences[2:])]
    found = learns.learn_on(2, experiences)

    assert len(experiences) == 4 and tokens[0] != tokens[1]
    assert torch.allclose(found, meant.gradient(), atol=1e-5 * found.abs().max().item())


@pytest.mark.parametrize("algorithm", ["grpo", "reinforce_baseline"])
def test_a_step_in_which_all_did_equally_well_teaches_nothing_but_to_stay_near_the_start(openrlhf, algorithm):
    _, args = run_of(openrlhf, algorithm=algorithm, prompts_per_step=2, samples_per_prompt=3, micro_batch=2)
    responses = [response(reward) for reward in [0.9] * 3 + [1.8] * 3]
    with training_code(openrlhf.sources) as load:
        learns = Step(load, args, TOKENIZER, tiny_model(len(TOKENIZER), 0), tiny_model(len(TOKENIZER), 1))
        experiences = learns.experiences(responses)

    for experience in experiences:
        assert torch.equal(experience.advantages, torch.zeros_like(experience.advantages))


def response(reward):
    """Two turns with an observation between them, as our agent gives them."""
    return {
        "prompt": "p",
        "label": "l",
        "images": None,
        "mm_train_inputs": None,
        "observation_tokens": [*range(40, 60)],
        "action_ranges": [(5, 9), (14, 20)],
        "rollout_log_probs": None,
        "truncated": False,
        "reward": exact(reward),
        "scores": 1.0,
        "extra_logs": {},
    }


class Critic:
    """Expects more the further a rollout has come."""

    def forward(self, sequences, action_mask, attention_mask):
        return torch.arange(action_mask.shape[1]) / 8 * action_mask


LARGE = [("ppo", [5.0, 15.0, 20.0, 400.0]), ("reinforce_baseline", [0.0, 0.0, 0.0, 100.0])]


@pytest.mark.parametrize(("algorithm", "rewards"), LARGE, ids=["ppo", "baseline"])
def test_rewards_of_any_size_reach_every_turn_as_they_are(openrlhf, algorithm, rewards):
    _, args = run_of(openrlhf, algorithm=algorithm, prompts_per_step=1, samples_per_prompt=4, micro_batch=4)
    with training_code(openrlhf.sources) as load:
        model = tiny_model(len(TOKENIZER), 0)
        learns = Step(load, args, TOKENIZER, model, model, Critic() if algorithm == "ppo" else None)
        (found,) = learns.experiences([response(reward) for reward in rewards])

    mask = found.action_mask.bool()
    baseline = torch.tensor(0.0 if algorithm == "ppo" else sum(rewards) / 4)
    returns = (torch.tensor(rewards) - baseline)[:, None].expand(mask.shape)
    expected = found.values if algorithm == "ppo" else torch.zeros(mask.shape)
    better = (returns - expected)[mask]
    assert found.returns[mask].tolist() == pytest.approx(returns[mask].tolist(), rel=1e-4)
    whitened = (better - better.mean()) / better.std(correction=0)
    assert found.advantages[mask].tolist() == pytest.approx(whitened.tolist(), abs=1e-4)
