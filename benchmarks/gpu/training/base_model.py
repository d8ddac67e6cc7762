"""Makes $TRAIN/models/base (SmolLM2-135M-Instruct, dequantised), and a model of each adapter by merging it into that.

usage: base_model.py TRAIN NAME=ADAPTER …
"""

import shutil
import sys
from pathlib import Path

import torch
from peft import PeftModel
from safetensors.torch import save_file
from transformers import AutoModelForCausalLM


def save(model, target, like):
    """Weights by hand: transformers does not save a model that it read from GGUF. The head is tied to the embedding."""
    target.mkdir(parents=True, exist_ok=True)
    weights = {name: tensor.contiguous() for name, tensor in model.state_dict().items() if name != "lm_head.weight"}
    save_file(weights, target / "model.safetensors", metadata={"format": "pt"})
    shutil.copytree(like, target, dirs_exist_ok=True)


def main():
    train = Path(sys.argv[1])
    model = AutoModelForCausalLM.from_pretrained(train / "gguf", gguf_file="base.gguf", dtype=torch.bfloat16)
    save(model, train / "models" / "base", train / "hf")
    for name, _, adapter in (pair.partition("=") for pair in sys.argv[2:]):
        plain = AutoModelForCausalLM.from_pretrained(train / "models" / "base", dtype=torch.float32)
        merged = PeftModel.from_pretrained(plain, adapter).merge_and_unload().to(torch.bfloat16)
        save(merged, train / "models" / name, train / "hf")


if __name__ == "__main__":
    main()
