"""Merges a LoRA adapter into its base and saves a model directory that vLLM can serve. Heavy imports wait until they are needed."""

from __future__ import annotations

import os
import warnings
from pathlib import Path


def merge(base: Path, adapter_dir: Path, target: Path) -> None:
    """Writes the merged model in bf16 safetensors, its tokenizer and chat template into `target`.

    `base` is a GGUF file, which is dequantised, or a model directory. The sum is done in float32 and rounded once.
    """
    os.environ["TQDM_DISABLE"] = "1"
    import torch
    from peft import PeftModel
    from transformers import AutoModelForCausalLM, AutoTokenizer, GgufConfig
    from transformers.utils import logging

    logging.set_verbosity_error()
    logging.disable_progress_bar()
    warnings.filterwarnings("ignore", module="transformers")
    if base.suffix == ".gguf":
        gguf = {"gguf_file": base.name}
        tokenizer = AutoTokenizer.from_pretrained(base.parent, **gguf)
        model = AutoModelForCausalLM.from_pretrained(
            base.parent, **gguf, quantization_config=GgufConfig(dequantize=True), dtype=torch.bfloat16
        )
    else:
        tokenizer = AutoTokenizer.from_pretrained(base)
        model = AutoModelForCausalLM.from_pretrained(base, dtype=torch.bfloat16)
    merged = PeftModel.from_pretrained(model.float(), adapter_dir).merge_and_unload().to(torch.bfloat16)
    # The folder of the base is this machine's business, not the model's.
    merged.config.name_or_path = adapter_dir.name
    merged.save_pretrained(target)
    tokenizer.save_pretrained(target)
