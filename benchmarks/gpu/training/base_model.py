"""Makes $TRAIN/models/base (SmolLM2-135M-Instruct, dequantised) and models/bundled (the bundled adapter merged into it).

usage: base_model.py TRAIN ADAPTER
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
    train, adapter = Path(sys.argv[1]), Path(sys.argv[2])
    model = AutoModelForCausalLM.from_pretrained(train / "gguf", gguf_file="base.gguf", dtype=torch.bfloat16)
    save(model, train / "models" / "base", train / "hf")
    plain = AutoModelForCausalLM.from_pretrained(train / "models" / "base", dtype=torch.float32)
    merged = PeftModel.from_pretrained(plain, str(adapter)).merge_and_unload().to(torch.bfloat16)
    save(merged, train / "models" / "bundled", train / "hf")


if __name__ == "__main__":
    main()
