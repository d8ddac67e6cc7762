"""Stand-ins for the policy's tests: an engine without a model, and a tiny model with a tiny adapter."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from pathlib import Path

from policy.bundle import Bundle, PinnedFile


@dataclass
class FakeEngine:
    name: str = "fake 1"
    context_length: int = 128
    special_tokens: tuple[str, ...] = ("<|im_end|>",)
    failure: str | None = None
    tokens: float = 0.0
    probes: int = 0

    def tokens_processed(self) -> float:
        return self.tokens

    async def probe(self) -> None:
        self.probes += 1


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
