"""A run that says how much vLLM takes: in the engine's arguments of the real vLLM, in the order in which OpenRLHF makes things."""

import pytest
from vllm.engine.arg_utils import AsyncEngineArgs, EngineArgs

from trainer.engine_memory import GIB, reserve_cache


@pytest.fixture(autouse=True)
def engine_arguments_as_they_were(monkeypatch):
    monkeypatch.setattr(EngineArgs, "__post_init__", EngineArgs.__post_init__)


def test_vllm_measures_unless_a_run_says_otherwise():
    reserve_cache(None)
    assert AsyncEngineArgs(model="any").kv_cache_memory_bytes is None


def test_what_a_run_says_is_what_its_engine_takes():
    reserve_cache(1.5)
    assert AsyncEngineArgs(model="any", gpu_memory_utilization=0.1).kv_cache_memory_bytes == 1.5 * GIB


def test_a_size_that_openrlhf_hands_on_stays():
    reserve_cache(1.5)
    assert AsyncEngineArgs(model="any", kv_cache_memory_bytes=7).kv_cache_memory_bytes == 7


@pytest.mark.parametrize("version", ["0.11.2", "0.10.4"])
def test_openrlhf_makes_the_executor_before_the_engine(openrlhf_sources, version):
    code = (openrlhf_sources(version) / "openrlhf" / "trainer" / "ray" / "vllm_engine.py").read_text()
    body = code[code.index("async def __init__") :]
    assert body.index("_load_agent_executor(agent_func_path)") < body.index("vllm.AsyncEngineArgs(")
