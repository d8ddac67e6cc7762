"""A cold start with LoRA leaves a model that OpenRLHF and vLLM can start from, and the adapter that makes it."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from tests.support.policy_fakes import make_tiny_adapter, make_tiny_llama

from trainer.adapters import ADAPTER, merge_adapter


@pytest.fixture
def as_openrlhf_leaves_it(tmp_path: Path) -> Path:
    """The adapter, and beside it configuration and tokenizer of the base."""
    base = make_tiny_llama(tmp_path / "base")
    folder = make_tiny_adapter(base, tmp_path / "model")
    for path in base.iterdir():
        if path.suffix != ".safetensors":
            shutil.copy(path, folder)
    return folder


@pytest.mark.parametrize("zero_stage", [2, 3])
def test_model_and_adapter_lie_beside_each_other(as_openrlhf_leaves_it: Path, zero_stage: int) -> None:
    import torch
    from peft import PeftModel
    from safetensors.torch import load_file
    from transformers import AutoModelForCausalLM

    folder = as_openrlhf_leaves_it
    if zero_stage == 3:
        weights = folder / "adapter_model.safetensors"
        torch.save(load_file(weights), folder / "adapter_model.bin")
        weights.unlink()
    merge_adapter(folder)

    assert not list(folder.glob("adapter_*"))
    assert [path.name for path in (folder / ADAPTER).glob("adapter_model*")] == ["adapter_model.safetensors"]
    text = torch.tensor([[1, 2, 1, 2]])
    base = AutoModelForCausalLM.from_pretrained(folder.parent / "base", dtype=torch.float32)
    plain = base(text).logits
    adapted = PeftModel.from_pretrained(base, folder / ADAPTER)(text).logits
    merged = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32)(text).logits
    assert (merged - adapted).abs().max() < 0.1 * (plain - adapted).abs().max()


def test_a_whole_model_is_left_as_it_is(tmp_path: Path) -> None:
    folder = make_tiny_llama(tmp_path / "model")
    before = {path.name: path.read_bytes() for path in folder.iterdir()}
    merge_adapter(folder)
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == before
