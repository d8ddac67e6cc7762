import pytest

from policy.engines.interface import Device
from policy.engines.setup import EngineSpec, command_line, environment

CPU = EngineSpec("m", "name", "127.0.0.1", 8002, Device.CPU, 4096, 2**30, enforce_eager=True, few_cores=True, shutdown_timeout_s=20)
CUDA = EngineSpec("m", "name", "127.0.0.1", 8002, Device.CUDA, extra=("--tensor-parallel-size", "2"))


@pytest.mark.parametrize("spec", [CPU, CUDA])
def test_the_installed_vllm_understands_the_command_line(spec: EngineSpec) -> None:
    from policy.engines.vllm_server import parse  # takes seconds to import, which whoever only collects this file is spared

    args = parse(command_line(spec))
    assert (args.model, args.served_model_name, args.host, args.port) == ("m", ["name"], "127.0.0.1", 8002)
    assert (args.max_model_len, args.kv_cache_memory_bytes) == (spec.max_model_len, spec.kv_cache_bytes)
    assert (args.enforce_eager, args.trust_remote_code) == (spec.enforce_eager, False)
    assert args.enable_prefix_caching is True
    assert args.tensor_parallel_size == (2 if spec is CUDA else 1)


def test_few_cores_share_one_process() -> None:
    variables = environment(CPU, cores=2, offline=True, log_level="INFO")
    assert (variables["VLLM_ENABLE_V1_MULTIPROCESSING"], variables["OMP_NUM_THREADS"]) == ("0", "2")
    assert variables["HF_HUB_OFFLINE"] == "1"


def test_a_gpu_host_keeps_vllms_own_ways() -> None:
    variables = environment(CUDA, cores=64, offline=False, log_level="DEBUG")
    assert not {"OMP_NUM_THREADS", "TORCHDYNAMO_DISABLE", "HF_HUB_OFFLINE"} & variables.keys()
    assert variables["VLLM_LOGGING_LEVEL"] == "DEBUG"
