"""Turns settings into a plan that can work: which checkpoint, on which device, with which limits. Refuses everything else."""

from __future__ import annotations

import math
import shlex
from dataclasses import dataclass
from pathlib import Path

from parallelsearch.protocol.observations import Layout
from policy import preflight
from policy.bundle import Bundle
from policy.checkpoint import read_checkpoint
from policy.engines.interface import Device
from policy.engines.setup import CPU_KV_CACHE_GB, FEW_CORES, EngineSpec
from policy.settings import BUNDLED, PolicySettings
from policy.state import Served

GIB = 2**30


@dataclass(frozen=True, slots=True)
class Host:
    """What the machine offers."""

    device: Device
    cores: int
    available_bytes: int


@dataclass(frozen=True, slots=True)
class Plan:
    """What will be served and how. `offline` keeps the engine from asking any hub."""

    spec: EngineSpec
    served: Served
    offline: bool


@dataclass(frozen=True, slots=True)
class Source:
    """Where the model lies, and what is known about it before it is loaded."""

    model: str
    name: str
    layout: Layout = Layout.LABELLED
    turn_tokens: int | None = None
    max_model_len: int | None = None
    local: bool = True


def find_source(settings: PolicySettings, bundle: Bundle, prepared: Path) -> Source:
    """`prepared` is the folder of the bundled policy, whether it exists yet or not."""
    if settings.checkpoint == BUNDLED:
        return Source(str(prepared), bundle.name, bundle.layout, bundle.turn_tokens, bundle.context_length)
    if preflight.is_hub_name(settings.checkpoint):
        return Source(settings.checkpoint, settings.checkpoint, local=False)
    directory = Path(settings.checkpoint).expanduser().absolute()
    return Source(str(directory), directory.name)


def make_plan(settings: PolicySettings, source: Source, host: Host) -> Plan:
    """Raises:
    ConfigurationError: the checkpoint cannot be served, or not with these settings on this host.
    """
    on_cpu = host.device is Device.CPU
    kv_cache_gb = settings.kv_cache_gb or (CPU_KV_CACHE_GB if on_cpu else None)
    kv_cache_bytes = int(kv_cache_gb * GIB) if kv_cache_gb else None
    max_model_len, turn_tokens = settings.max_model_len or source.max_model_len, settings.turn_tokens or source.turn_tokens
    context_tokens = max_model_len
    if source.local:
        checkpoint = read_checkpoint(Path(source.model), f"POLICY_CHECKPOINT ({source.model})")
        preflight.check_context(settings.max_model_len, checkpoint)
        context_tokens = max_model_len or checkpoint.context_length
        if on_cpu:
            preflight.check_memory(checkpoint, kv_cache_bytes or 0, host.available_bytes)
    preflight.check_turn(turn_tokens, context_tokens)
    name = settings.served_name or source.name
    spec = EngineSpec(
        model=source.model,
        served_name=name,
        host=settings.host,
        port=settings.port,
        device=host.device,
        max_model_len=max_model_len,
        kv_cache_bytes=kv_cache_bytes,
        enforce_eager=on_cpu if settings.enforce_eager is None else settings.enforce_eager,
        trust_remote_code=settings.trust_remote_code,
        max_queued=settings.max_queued,
        shutdown_timeout_s=math.ceil(settings.shutdown_grace_s),
        few_cores=on_cpu and host.cores <= FEW_CORES,
        extra=tuple(shlex.split(settings.vllm_arguments)),
    )
    served = Served(name, host.device, settings.layout or source.layout, turn_tokens)
    return Plan(spec, served, offline=source.local)
