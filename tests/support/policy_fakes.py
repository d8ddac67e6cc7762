"""Stand-ins for the policy's tests: an engine without a model, and a tiny model with a tiny adapter."""

from __future__ import annotations

import asyncio
import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy
from safetensors.numpy import save_file

from policy.bundle import Bundle, PinnedFile
from policy.engines.interface import EngineFault


@dataclass
class FakeEngine:
    """Loads any folder whose mark is not in `rejects`; `loaded` holds the marks of the weights it was given, in order."""

    name: str = "fake 1"
    context_length: int = 128
    failure: str | None = None
    tokens: float = 0.0
    probes: int = 0
    rejects: set[str] = field(default_factory=set)
    loaded: list[str] = field(default_factory=list)
    wedged: bool = False
    tokenizer: str | None = None

    def tokenizer_json(self) -> str | None:
        return self.tokenizer

    def tokens_processed(self) -> float:
        return self.tokens

    def special_tokens(self) -> Sequence[str]:
        return ["<|im_end|>", "<|im_start|>"]

    async def probe(self) -> None:
        if self.wedged:
            await asyncio.Event().wait()
        self.probes += 1

    async def load_weights(self, directory: Path) -> None:
        await asyncio.sleep(0.01)
        mark = json.loads((directory / "config.json").read_text())["mark"]
        if mark in self.rejects:
            raise EngineFault("loading failed")
        self.loaded.append(mark)


CONFIG = {"model_type": "llama", "hidden_size": 4, "num_hidden_layers": 1, "tie_word_embeddings": True, "rope_theta": 10_000.0}
SHAPES = {"model.embed_tokens.weight": (8, 4), "model.layers.0.self_attn.q_proj.weight": (4, 4)}


def make_checkpoint(folder: Path, mark: str = "", *, shapes: dict[str, tuple[int, ...]] = SHAPES, **config: object) -> Path:
    """Full weights of zeros; `mark` stands in the config, for the fake engine to tell checkpoints apart."""
    folder.mkdir(parents=True, exist_ok=True)
    settings = {name: value for name, value in {**CONFIG, "mark": mark, **config}.items() if value is not None}
    (folder / "config.json").write_text(json.dumps(settings))
    save_file({name: numpy.zeros(shape, "float32") for name, shape in shapes.items()}, folder / "model.safetensors")
    return folder


def make_adapter(
    folder: Path, base: str, *, width: int = 4, name: str = "model.layers.0.self_attn.q_proj", **config: object
) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    settings = {"peft_type": "LORA", "base_model_name_or_path": base, "r": 2, **config}
    (folder / "adapter_config.json").write_text(json.dumps(settings))
    a, b = numpy.zeros((2, width), "float32"), numpy.zeros((4, 2), "float32")
    prefix = f"base_model.model.{name}"
    save_file({f"{prefix}.lora_A.weight": a, f"{prefix}.lora_B.weight": b}, folder / "adapter_model.safetensors")
    return folder


def pinned(path: Path) -> PinnedFile:
    return PinnedFile(path, hashlib.sha256(path.read_bytes()).hexdigest())


def fake_bundle(folder: Path) -> Bundle:
    """A bundle whose files hold a few bytes; nothing can be merged from it."""
    adapter = folder / "adapter"
    adapter.mkdir(parents=True)
    for path in (folder / "base.gguf", adapter / "adapter_config.json", adapter / "adapter_model.safetensors"):
        path.write_bytes(path.name.encode())
    return Bundle(
        name="tiny",
        base_name="Tiny",
        base=pinned(folder / "base.gguf"),
        adapter_config=pinned(adapter / "adapter_config.json"),
        adapter_weights=pinned(adapter / "adapter_model.safetensors"),
    )


def make_tiny_llama(folder: Path) -> Path:
    """A random Llama of two layers in bf16, with a tokenizer of a few words and a chat template."""
    import torch
    from tokenizers import Tokenizer, models, pre_tokenizers
    from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

    torch.manual_seed(0)
    config = LlamaConfig(
        vocab_size=32,
        hidden_size=32,
        intermediate_size=64,
        num_hidden_layers=2,
        num_attention_heads=2,
        num_key_value_heads=1,
        max_position_embeddings=64,
        tie_word_embeddings=True,
    )
    LlamaForCausalLM(config).to(torch.bfloat16).save_pretrained(folder)
    words = Tokenizer(models.WordLevel({"<unk>": 0, "a": 1, "b": 2, "</s>": 3}, unk_token="<unk>"))
    words.pre_tokenizer = pre_tokenizers.Whitespace()
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=words, unk_token="<unk>", eos_token="</s>")
    tokenizer.chat_template = "{% for m in messages %}{{ m['content'] }}{% endfor %}"
    tokenizer.save_pretrained(folder)
    return folder


def make_tiny_adapter(base: Path, folder: Path) -> Path:
    """A LoRA adapter for `make_tiny_llama` that does change the weights."""
    import torch
    from peft import LoraConfig, get_peft_model
    from transformers import AutoModelForCausalLM

    torch.manual_seed(1)
    model = AutoModelForCausalLM.from_pretrained(base, dtype=torch.bfloat16)
    config = LoraConfig(r=2, lora_alpha=4, target_modules=["q_proj", "down_proj"], init_lora_weights=False)
    get_peft_model(model, config).save_pretrained(folder)
    return folder
