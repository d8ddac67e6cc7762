import threading
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file
from tests.support.policy_fakes import fake_bundle, make_tiny_adapter, make_tiny_llama
from transformers import AutoTokenizer

from parallelsearch.errors import ConfigurationError
from policy.merging import merge as real_merge
from policy.preparation import is_prepared, prepare, prepared_dir


class Merge:
    """Writes one file, and counts."""

    def __init__(self, fails: bool = False) -> None:
        self.calls = 0
        self.fails = fails

    def __call__(self, base: Path, adapter_dir: Path, target: Path) -> None:
        self.calls += 1
        (target / "config.json").write_text("{}")
        if self.fails:
            raise KeyboardInterrupt


def quiet(_: str) -> None:
    pass


def test_the_second_call_finds_the_first_ones_work(tmp_path: Path) -> None:
    bundle, merge = fake_bundle(tmp_path / "bundle"), Merge()
    first = prepare(bundle, tmp_path / "models", merge=merge, say=quiet)
    second = prepare(bundle, tmp_path / "models", merge=merge, say=quiet)
    assert (first, merge.calls) == (second, 1)
    assert is_prepared(bundle, tmp_path / "models")


def test_a_damaged_model_is_made_anew(tmp_path: Path) -> None:
    bundle, merge = fake_bundle(tmp_path / "bundle"), Merge()
    folder = prepare(bundle, tmp_path / "models", merge=merge, say=quiet)
    (folder / "config.json").write_text("{]")
    assert not is_prepared(bundle, tmp_path / "models")
    prepare(bundle, tmp_path / "models", merge=merge, say=quiet)
    assert merge.calls == 2 and is_prepared(bundle, tmp_path / "models")


def test_an_interrupted_merge_leaves_nothing_and_can_be_repeated(tmp_path: Path) -> None:
    bundle, models = fake_bundle(tmp_path / "bundle"), tmp_path / "models"
    with pytest.raises(KeyboardInterrupt):
        prepare(bundle, models, merge=Merge(fails=True), say=quiet)
    assert [path.name for path in models.iterdir() if path.is_dir()] == []
    prepare(bundle, models, merge=Merge(), say=quiet)
    assert is_prepared(bundle, models)


def test_what_a_killed_merge_left_is_cleared_away(tmp_path: Path) -> None:
    bundle, models = fake_bundle(tmp_path / "bundle"), tmp_path / "models"
    leftover = models / f"{prepared_dir(bundle, models).name}.partial-abc"
    leftover.mkdir(parents=True)
    prepare(bundle, models, merge=Merge(), say=quiet)
    assert not leftover.exists()


def test_of_two_at_once_one_merges_and_both_succeed(tmp_path: Path) -> None:
    bundle, merge, models = fake_bundle(tmp_path / "bundle"), Merge(), tmp_path / "models"
    folders: list[Path] = []
    threads = [threading.Thread(target=lambda: folders.append(prepare(bundle, models, merge=merge, say=quiet))) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert folders == [prepared_dir(bundle, models)] * 4
    assert merge.calls == 1


def test_a_base_that_is_another_file_is_refused(tmp_path: Path) -> None:
    bundle = fake_bundle(tmp_path / "bundle")
    bundle.base.path.write_bytes(b"something else")
    with pytest.raises(ConfigurationError, match=r"base\.gguf is not the file this release was made with"):
        prepare(bundle, tmp_path / "models", merge=Merge(), say=quiet)


def test_merging_adds_the_adapter_and_keeps_tokenizer_and_template(tmp_path: Path) -> None:
    base = make_tiny_llama(tmp_path / "base")
    adapter = make_tiny_adapter(base, tmp_path / "adapter")
    target = tmp_path / "merged"
    real_merge(base, adapter, target)

    before, after = load_file(base / "model.safetensors"), load_file(target / "model.safetensors")
    lora = load_file(adapter / "adapter_model.safetensors")
    name = "model.layers.0.self_attn.q_proj"
    update = lora[f"base_model.model.{name}.lora_B.weight"].float() @ lora[f"base_model.model.{name}.lora_A.weight"].float()
    expected = (before[f"{name}.weight"].float() + 2.0 * update).to(torch.bfloat16)
    assert before.keys() == after.keys()
    assert torch.equal(after[f"{name}.weight"], expected)
    assert torch.equal(after["model.embed_tokens.weight"], before["model.embed_tokens.weight"])
    assert AutoTokenizer.from_pretrained(target).chat_template
    assert str(tmp_path) not in (target / "config.json").read_text()
