"""The environment inside OpenRLHF's loop: the file that a run names as `--train.agent_func_path`.

OpenRLHF owns the loop (`MultiTurnAgentExecutor`); here a rollout of ours is put into it. What its loop lacks is added around the
engine that it generates with: stop strings that stay in the text, and a cap per turn. Observations are tokenised apart and lie
outside of the action ranges, so they are masked; the policy's tokens are kept as sampled.
"""

from __future__ import annotations

from copy import deepcopy
from typing import Any

import torch
from openrlhf.utils.agent import AgentExecutorBase, AgentInstanceBase, MultiTurnAgentExecutor

from parallelsearch.protocol.tags import CLOSING_TAGS
from parallelsearch.rollout.types import StopReason
from trainer.engine_memory import reserve_cache
from trainer.episode import Episode, Outcome
from trainer.labels import Label
from trainer.worker import Worker, worker_from_environment


# OpenRLHF loads this file without entering it into sys.modules, which dataclasses need: hence plain classes here.
class TurnEngine:
    """The engine of one rollout: each generation is one turn, and its token ids are kept for the environment."""

    def __init__(self, engine: Any, turn_tokens: int) -> None:
        self.engine, self.turn_tokens = engine, turn_tokens
        self.token_ids: tuple[int, ...] = ()

    async def generate(self, prompt_token_ids: list[int], sampling_params: Any, multi_modal_data: Any = None) -> Any:
        sampling_params.max_tokens = min(sampling_params.max_tokens, self.turn_tokens)
        sampling_params.stop = list(CLOSING_TAGS)
        sampling_params.include_stop_str_in_output = True
        sampling_params.skip_special_tokens = True
        output = await self.engine.generate(prompt_token_ids, sampling_params, multi_modal_data=multi_modal_data)
        output.outputs[0].token_ids = list(output.outputs[0].token_ids)
        self.token_ids = tuple(output.outputs[0].token_ids)
        return output


class RolloutInstance(AgentInstanceBase):  # type: ignore[misc]  # OpenRLHF has no types
    """One rollout as OpenRLHF sees it. The reward comes with the last step, once the worker has settled it."""

    def __init__(self, episode: Episode, engine: TurnEngine) -> None:
        self.episode, self.engine = episode, engine

    async def step(self, state_dict: dict[str, Any], **_: Any) -> dict[str, Any]:
        step = await self.episode.step(state_dict["action_text"], self.engine.token_ids)
        return {"rewards": torch.tensor(0.0), "environment_feedback": step.observation, "done": step.done}


class Loop(MultiTurnAgentExecutor):  # type: ignore[misc]
    """OpenRLHF's loop over an instance that is made already."""

    def __init__(self, instance: RolloutInstance) -> None:
        self.agent_instance_cls = lambda: instance


class AgentExecutor(AgentExecutorBase):  # type: ignore[misc]
    """What OpenRLHF makes one of in each rollout process; without arguments, so the worker comes from the environment."""

    def __init__(self, worker: Worker | None = None) -> None:
        self._worker = worker or worker_from_environment()
        reserve_cache(self._worker.spec.resources.vllm_cache_gib)

    async def execute(
        self, prompt: str, label: str, sampling_params: Any, max_length: int, hf_tokenizer: Any, llm_engine: Any, images: Any = None
    ) -> dict[str, Any]:
        prompt_ids = hf_tokenizer.encode(prompt, add_special_tokens=False)
        unpacked = Label.model_validate_json(label)
        async with self._worker.rollout(unpacked) as rollout:
            episode = self._worker.episode(unpacked, hf_tokenizer, hf_tokenizer.all_special_tokens, prompt_tokens=len(prompt_ids))
            response: dict[str, Any]
            if episode.environment.fits:
                engine = TurnEngine(llm_engine, self._worker.spec.rollout.turn_tokens)
                loop = Loop(RolloutInstance(episode, engine))
                response = await loop.execute(prompt, label, deepcopy(sampling_params), max_length, hf_tokenizer, engine, images)
            else:
                response = _empty_response(prompt, label, prompt_ids[:max_length], sampling_params)
            outcome = episode.outcome or episode.finish(StopReason.CONTEXT_LIMIT)
            reward = await rollout.settle(outcome)
        if outcome.excluded:
            response["action_ranges"] = _last_token(response["action_ranges"])
        return {**response, "reward": reward, "scores": float(outcome.reward.matched), "extra_logs": _logs(outcome)}


def _last_token(ranges: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """Of an excluded rollout one token stays, since OpenRLHF divides by the number of tokens; its advantage is none."""
    return [(ranges[-1][1] - 1, ranges[-1][1])] if ranges else ranges


def _empty_response(prompt: str, label: str, token_ids: list[int], sampling_params: Any) -> dict[str, Any]:
    """A prompt that leaves no room for a turn: nothing is generated, and nothing of the prompt is cut away to make room."""
    return {
        "prompt": prompt,
        "label": label,
        "images": None,
        "mm_train_inputs": None,
        "observation_tokens": token_ids,
        "action_ranges": [(len(token_ids) - 1, len(token_ids))],
        "rollout_log_probs": None if sampling_params.logprobs is None else [0.0] * len(token_ids),
        "truncated": True,
    }


def _logs(outcome: Outcome) -> dict[str, float]:
    """OpenRLHF means these over a step; the same names for every rollout. Those by kind come from the records."""
    reward, turns = outcome.reward, outcome.trajectory.turns
    return {
        "exact_match": float(reward.matched),
        "well_formed": float(reward.well_formed),
        "decomposed": float(reward.decomposed),
        "searches": float(reward.searches),
        "repeated_searches": float(reward.repeated_searches),
        "turns": float(len(turns)),
        "excluded": float(outcome.excluded),
        "reward_outcome_and_format": reward.terms.outcome_and_format,
        "reward_decomposition": reward.terms.decomposition,
        "reward_search_count": reward.terms.search_count,
        "reward_repetition": reward.terms.repetition,
    }
