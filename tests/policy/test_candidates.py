"""Every reason to refuse a checkpoint is a 422 that names it, and nothing has touched the engine."""

import json
from pathlib import Path

import pytest
from tests.support.policy_fakes import SHAPES, make_adapter, make_checkpoint

from parallelsearch.errors import InvalidInput
from policy.candidates import Adapter, FullWeights, Verifier
from policy.model_shape import read_shape


@pytest.fixture
def verifier(tmp_path: Path) -> Verifier:
    initial = make_checkpoint(tmp_path / "initial")
    (tmp_path / "runs").mkdir()
    return Verifier((tmp_path / "runs",), initial, read_shape(initial), (("served", initial), ("base", tmp_path / "base.gguf")))


def refused(verifier: Verifier, name: str | Path, words: str) -> None:
    with pytest.raises(InvalidInput, match=words):
        verifier.find(str(name))


def test_full_weights_are_found_by_path_and_below_a_root(tmp_path: Path, verifier: Verifier) -> None:
    folder = make_checkpoint(tmp_path / "runs" / "a" / "step1")
    expected = FullWeights(folder, (folder / "model.safetensors",))
    assert verifier.find(str(folder)) == verifier.find("a/step1") == expected


def test_the_initial_checkpoint_may_come_back(verifier: Verifier) -> None:
    assert verifier.find(str(verifier.initial)) == FullWeights(verifier.initial, (verifier.initial / "model.safetensors",))


def test_outside_of_the_roots(tmp_path: Path, verifier: Verifier) -> None:
    outside = make_checkpoint(tmp_path / "elsewhere")
    refused(verifier, outside, "no directory below an allowed root")
    refused(verifier, "../elsewhere", "no directory below an allowed root")
    (tmp_path / "runs" / "link").symlink_to(outside)
    refused(verifier, tmp_path / "runs" / "link", "no directory below an allowed root")


def test_a_file_that_links_out_of_the_roots(tmp_path: Path, verifier: Verifier) -> None:
    outside, inside = make_checkpoint(tmp_path / "elsewhere"), make_checkpoint(tmp_path / "runs" / "a")
    (inside / "model.safetensors").unlink()
    (inside / "model.safetensors").symlink_to(outside / "model.safetensors")
    refused(verifier, inside, "link out of the allowed roots")


def test_no_checkpoint_at_all(tmp_path: Path, verifier: Verifier) -> None:
    refused(verifier, "nothing", "no directory")
    (tmp_path / "runs" / "empty").mkdir()
    refused(verifier, "empty", "neither config.json nor adapter_config.json")


def test_weights_that_are_not_safetensors(tmp_path: Path, verifier: Verifier) -> None:
    folder = make_checkpoint(tmp_path / "runs" / "a")
    (folder / "model.safetensors").rename(folder / "pytorch_model.bin")
    refused(verifier, "a", "holds no safetensors")


@pytest.mark.parametrize("keep", [0, 5, 100])
def test_weights_cut_short(tmp_path: Path, verifier: Verifier, keep: int) -> None:
    file = make_checkpoint(tmp_path / "runs" / "a") / "model.safetensors"
    file.write_bytes(file.read_bytes()[:keep])
    refused(verifier, "a", "no whole safetensors file")


def test_an_index_whose_part_is_missing(tmp_path: Path, verifier: Verifier) -> None:
    folder = make_checkpoint(tmp_path / "runs" / "a")
    (folder / "model.safetensors.index.json").write_text('{"weight_map": {"x": "model-00001.safetensors"}}')
    refused(verifier, "a", "model-00001.safetensors is named by .* but is missing")


@pytest.mark.parametrize(
    ("config", "words"),
    [
        ({"hidden_size": 8}, "hidden_size is 8, not 4"),
        ({"rope_theta": 5e5}, "rope_theta is 500000.0, not 10000.0"),
        ({"model_type": "qwen2"}, "model_type is qwen2, not llama"),
    ],
)
def test_another_config(tmp_path: Path, verifier: Verifier, config: dict[str, object], words: str) -> None:
    make_checkpoint(tmp_path / "runs" / "a", **config)
    refused(verifier, "a", words)


def test_the_newer_way_to_write_rope_is_the_same(tmp_path: Path, verifier: Verifier) -> None:
    folder = make_checkpoint(
        tmp_path / "runs" / "a", rope_theta=None, rope_parameters={"rope_theta": 10_000, "rope_type": "default"}
    )
    assert isinstance(verifier.find(str(folder)), FullWeights)


def test_tensors_of_another_shape_missing_or_strange(tmp_path: Path, verifier: Verifier) -> None:
    embedding, query = SHAPES
    make_checkpoint(tmp_path / "runs" / "shape", shapes=SHAPES | {query: (4, 8)})
    refused(verifier, "shape", r"q_proj.weight is \[4, 8\], not \[4, 4\]")
    make_checkpoint(tmp_path / "runs" / "missing", shapes={embedding: (8, 4)})
    refused(verifier, "missing", "q_proj.weight is missing")
    make_checkpoint(tmp_path / "runs" / "strange", shapes=SHAPES | {"extra": (1,)})
    refused(verifier, "strange", "extra is not in the served model")


def test_a_tied_head_may_be_written_out(tmp_path: Path, verifier: Verifier) -> None:
    folder = make_checkpoint(tmp_path / "runs" / "a", shapes=SHAPES | {"lm_head.weight": (8, 4)})
    assert isinstance(verifier.find(str(folder)), FullWeights)


def test_adapters_find_their_base(tmp_path: Path, verifier: Verifier) -> None:
    folder = make_adapter(tmp_path / "runs" / "a", "base")
    assert verifier.find("a") == Adapter(folder, tmp_path / "base.gguf")
    make_adapter(folder, "served")
    assert verifier.find("a") == Adapter(folder, verifier.initial)
    other = make_checkpoint(tmp_path / "runs" / "other")
    make_adapter(folder, str(other))
    assert verifier.find("a") == Adapter(folder, other)


def test_an_adapter_beside_the_configuration_of_its_base(tmp_path: Path, verifier: Verifier) -> None:
    folder = make_adapter(tmp_path / "runs" / "a", "base")
    (folder / "config.json").write_bytes((verifier.initial / "config.json").read_bytes())
    assert verifier.find("a") == Adapter(folder, tmp_path / "base.gguf")


def test_an_adapter_of_another_base(tmp_path: Path, verifier: Verifier) -> None:
    make_adapter(tmp_path / "runs" / "a", "somebody/else")
    refused(verifier, "a", r"belongs to another base \(somebody/else\); this policy serves served, base")


def test_adapters_that_do_not_fit(tmp_path: Path, verifier: Verifier) -> None:
    make_adapter(tmp_path / "runs" / "wide", "base", width=5)
    refused(verifier, "wide", r"lora_A.weight is \[2, 5\], which does not fit \[4, 4\]")
    make_adapter(tmp_path / "runs" / "strange", "base", name="model.vision")
    refused(verifier, "strange", "belongs to nothing in the served model")
    make_adapter(tmp_path / "runs" / "saved", "base", modules_to_save=["lm_head"])
    refused(verifier, "saved", "only LoRA adapters without further trained modules")
    folder = make_adapter(tmp_path / "runs" / "bin", "base")
    (folder / "adapter_model.safetensors").rename(folder / "adapter_model.bin")
    refused(verifier, "bin", "holds no adapter_model.safetensors")


def test_a_name_that_no_file_can_have(tmp_path: Path, verifier: Verifier) -> None:
    (tmp_path / "runs" / "round").symlink_to(tmp_path / "runs" / "round")
    for name in ("~nobody-of-this-name/a", "x" * 300, "a/" + "x" * 300, "round", "round/a"):
        with pytest.raises(InvalidInput, match=r"^checkpoint: "):
            verifier.find(name)


@pytest.mark.parametrize(
    ("file", "content"),
    [
        ("config.json", {"rope_theta": "much"}),
        ("config.json", {"rope_parameters": [1]}),
        ("config.json", {"rope_parameters": {"rope_theta": {}}}),
        ("model.safetensors.index.json", {"weight_map": ["model.safetensors"]}),
        ("model.safetensors.index.json", {"weight_map": {"a": 1}}),
        ("model.safetensors.index.json", []),
        ("adapter_config.json", {"peft_type": "LORA", "base_model_name_or_path": ["base"]}),
        ("adapter_config.json", {"peft_type": 1, "base_model_name_or_path": "base"}),
    ],
)
def test_a_file_whose_fields_hold_something_else(tmp_path: Path, verifier: Verifier, file: str, content: object) -> None:
    folder = make_checkpoint(tmp_path / "runs" / "a")
    if file == "adapter_config.json":
        make_adapter(folder, "base")
    (folder / file).write_text(json.dumps(content))
    refused(verifier, "a", f"^checkpoint: {file} of a")
