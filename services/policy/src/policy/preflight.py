"""Refuses, in one sentence and before anything heavy is loaded, a configuration that cannot work."""

from __future__ import annotations

import re
from pathlib import Path

from parallelsearch.errors import ConfigurationError
from parallelsearch.rollout.settings import least_context
from policy.checkpoint import Checkpoint

ENGINE_BYTES = 1_800_000_000
"""What vLLM's processes take on CPU besides weights and cache."""
_HUB_NAME = re.compile(r"[\w.-]+/[\w.-]+")


def is_hub_name(checkpoint: str) -> bool:
    """Whether a setting names a model on a hub; whatever exists, or starts like a path, is a path."""
    return bool(_HUB_NAME.fullmatch(checkpoint)) and checkpoint[0] not in "./~" and not Path(checkpoint).exists()


def check_context(asked: int | None, checkpoint: Checkpoint) -> None:
    limit = checkpoint.context_length
    if asked is not None and limit is not None and asked > limit:
        raise ConfigurationError(
            f"POLICY_MAX_MODEL_LEN is {asked}, but the model ends at {limit} tokens. Set it to {limit} or less."
        )


def check_turn(turn_tokens: int | None, context_tokens: int | None) -> None:
    """`context_tokens` is what the model is served with; None is not known."""
    if turn_tokens is not None and context_tokens is not None and context_tokens < (least := least_context(turn_tokens)):
        raise ConfigurationError(
            f"POLICY_MAX_MODEL_LEN is {context_tokens}, and POLICY_TURN_TOKENS is {turn_tokens}: the prompt and one turn take "
            f"{least} tokens at least. Raise the one or lower the other."
        )


def check_memory(checkpoint: Checkpoint, kv_cache_bytes: int, available_bytes: int) -> None:
    """Weights, cache and vLLM itself must fit what is available."""
    needed = checkpoint.weight_bytes + kv_cache_bytes + ENGINE_BYTES
    if needed > available_bytes:
        raise ConfigurationError(
            f"The model needs {needed / 1e9:.1f} GB of memory ({checkpoint.weight_bytes / 1e9:.1f} for weights, "
            f"{kv_cache_bytes / 1e9:.1f} for POLICY_KV_CACHE_GB, {ENGINE_BYTES / 1e9:.1f} for the engine), "
            f"{available_bytes / 1e9:.1f} GB are available. Free memory, or serve a smaller model."
        )
