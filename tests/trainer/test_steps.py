"""Which rollouts a run's steps are made of, by OpenRLHF's own loop of both versions over the rows that a run is dealt."""

import random
import sys
from types import SimpleNamespace

import pytest
import torch
from agent_rollouts import LABEL, TOKENIZER
from openrlhf_training import run_of, training_code

from trainer.jobs import deal
from trainer.labels import Label, PromptRow

QUESTIONS, STEPS, PROMPTS, SAMPLES, EVALUATED = 5, 4, 3, 2, 7


class Rows(list):
    """As much of a `datasets.Dataset` as is used."""

    def select(self, indices):
        return Rows(self[index] for index in indices)


class Loader(torch.utils.data.DataLoader):
    def state_dict(self):
        return {}


def remote(method):
    return SimpleNamespace(remote=method)


class Engine:
    """vLLM's part: answers each prompt with as many responses as it is asked for."""

    def __init__(self):
        self.asked = []
        self.get_num_unfinished_requests = remote(lambda: 0)
        self.generate_responses = remote(self.respond)

    def respond(self, *, prompt, label, sampling_params, max_length, hf_tokenizer, num_samples, images):
        self.asked.append((Label.model_validate_json(label), num_samples, sampling_params))
        made = {"observation_tokens": [1, 2, 3], "action_ranges": [(1, 3)], "rollout_log_probs": None, "images": None}
        return [{"prompt": prompt, "label": label, "reward": 1.0, "scores": 1.0, **made} for _ in range(num_samples)]


def rows(split, count):
    labels = (LABEL.model_copy(update={"id": f"{split}-{n}", "split": split}) for n in range(count))
    return [PromptRow(prompt=f"{label.id}?", label=label.model_dump_json()) for label in labels]


@pytest.fixture
def run(openrlhf):
    """A whole run but for the updates: its trainer, the samples of each step, and its engines."""
    _, args = run_of(
        openrlhf,
        steps=STEPS,
        prompts_per_step=PROMPTS,
        samples_per_prompt=SAMPLES,
        micro_batch=2,
        evaluation={"every_steps": 2, "samples": 3},
        resources={"sleep": False},
    )
    args.logger.tensorboard_dir = None
    dealt = [row.drawn(draw) for draw, row in enumerate(deal(rows("train", QUESTIONS), STEPS * PROMPTS, seed=1))]
    files = {args.data.prompt_dataset: dealt, args.eval.dataset: rows("eval", EVALUATED)}
    with training_code(openrlhf.sources) as load:
        pick = random.Random(7).randrange
        sys.modules["ray"].wait = lambda refs, **_: ([refs.pop(pick(len(refs)))], refs)
        sys.modules["vllm"].SamplingParams = SimpleNamespace
        sys.modules["torchdata.stateful_dataloader"].StatefulDataLoader = Loader
        module = load("openrlhf.trainer.ppo_trainer")
        module.get_tokenizer = lambda *_, **__: TOKENIZER
        module.blending_datasets = lambda name, *_, **__: Rows(row.model_dump() for row in files[name])
        strategy = object.__new__(load("openrlhf.utils.deepspeed.deepspeed").DeepspeedStrategy)
        strategy.args, strategy.is_rank_0 = args, lambda: False

        class Trainer(module.PPOTrainer):
            def train_step(self, rollout_samples, global_step):
                steps.append(rollout_samples)
                return {}, global_step + 1

        steps, engines = [], [Engine(), Engine()]
        trainer = Trainer("m", strategy, None, None, None, None, engines, max_len=100, temperature=0.9, max_new_tokens=10)
        trainer.fit()
        yield SimpleNamespace(trainer=trainer, steps=steps, asked=[asked for engine in engines for asked in engine.asked])


def test_a_run_makes_all_of_its_steps_of_whole_groups_and_learns_no_row_of_its_evaluation(run):
    steps = [[Label.model_validate_json(sample.labels[0]) for sample in samples] for samples in run.steps]
    groups = [labels[start : start + SAMPLES] for labels in steps for start in range(0, len(labels), SAMPLES)]

    assert run.trainer.max_steps == len(steps) == STEPS
    assert [len(labels) for labels in steps] == [PROMPTS * SAMPLES] * STEPS
    assert all(group == [group[0]] * SAMPLES for group in groups)
    assert sorted(group[0].draw for group in groups) == list(range(STEPS * PROMPTS))
    assert all(label.split == "train" for labels in steps for label in labels)


def test_the_rollouts_of_a_draw_are_made_by_one_process_and_the_evaluations_as_it_says(run):
    learnt = [(label.draw, samples) for label, samples, _ in run.asked if label.split == "train"]
    evaluated = [(label.id, samples, params) for label, samples, params in run.asked if label.split == "eval"]

    assert sorted(learnt) == [(draw, SAMPLES) for draw in range(STEPS * PROMPTS)]
    assert len(evaluated) == 2 * EVALUATED
    assert {(samples, params.temperature) for _, samples, params in evaluated} == {(3, 0.0)}
    assert {params.temperature for label, _, params in run.asked if label.split == "train"} == {0.9}
