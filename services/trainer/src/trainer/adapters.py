"""What a cold start with LoRA leaves: the whole model, which training goes on from and vLLM serves, and the adapter beside it.

OpenRLHF writes the adapter only, into the folder where a run's model is looked for.
"""

from __future__ import annotations

import json
from pathlib import Path

ADAPTER = "adapter"
CONFIG = "adapter_config.json"
FILES = (CONFIG, "adapter_model.safetensors", "adapter_model.bin", "README.md")
"""Weights whose parts lay on several GPUs (`resources.zero_stage` 3) OpenRLHF writes as the latter."""


def merge_adapter(folder: Path) -> None:
    """Moves the adapter in `folder` to `folder/adapter` and writes the model that it makes of its base (bf16) into `folder`.

    The sum is done in float32 and rounded once. Where `folder` holds no adapter nothing is done.
    """
    if not (folder / CONFIG).is_file():
        return
    import torch
    from peft import PeftModel
    from transformers import AutoModelForCausalLM

    adapter = folder / ADAPTER
    adapter.mkdir(exist_ok=True)
    for name in FILES:
        if (folder / name).is_file():
            (folder / name).replace(adapter / name)
    base = json.loads((adapter / CONFIG).read_text())["base_model_name_or_path"]
    model = AutoModelForCausalLM.from_pretrained(base, dtype=torch.float32)
    PeftModel.from_pretrained(model, adapter).merge_and_unload().to(torch.bfloat16).save_pretrained(folder)
