"""What a cold start with LoRA leaves: the whole model, which training goes on from and vLLM serves, and the adapter beside it.

OpenRLHF writes the adapter only, into the folder where a run's model is looked for.
"""

from __future__ import annotations

import json
from pathlib import Path

ADAPTER = "adapter"
CONFIG = "adapter_config.json"
WEIGHTS, PICKLED = "adapter_model.safetensors", "adapter_model.bin"
"""OpenRLHF writes the latter of weights whose parts lay on several GPUs (`resources.zero_stage` 3); the policy loads none such."""
FILES = (CONFIG, WEIGHTS, PICKLED, "README.md")


def merge_adapter(folder: Path) -> None:
    """Moves the adapter in `folder` to `folder/adapter` and writes the model that it makes of its base (bf16) into `folder`.

    The sum is done in float32 and rounded once. Where `folder` holds no adapter nothing is done.
    """
    if not (folder / CONFIG).is_file():
        return
    import torch
    from peft import PeftModel
    from safetensors.torch import save_file
    from transformers import AutoModelForCausalLM

    adapter = folder / ADAPTER
    adapter.mkdir(exist_ok=True)
    for name in FILES:
        if (folder / name).is_file():
            (folder / name).replace(adapter / name)
    if (adapter / PICKLED).is_file():
        tensors = torch.load(adapter / PICKLED, map_location="cpu", weights_only=True)
        save_file({name: tensor.contiguous() for name, tensor in tensors.items()}, adapter / WEIGHTS, {"format": "pt"})
        (adapter / PICKLED).unlink()
    base = json.loads((adapter / CONFIG).read_text())["base_model_name_or_path"]
    model = AutoModelForCausalLM.from_pretrained(base, dtype=torch.float32)
    PeftModel.from_pretrained(model, adapter).merge_and_unload().to(torch.bfloat16).save_pretrained(folder)
