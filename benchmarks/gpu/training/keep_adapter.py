"""What is kept of a run: the difference of two models as a LoRA adapter of at most 15 MB, with its error stated.

usage: keep_adapter.py START END OUT [--rank 24] [--merged FOLDER]

START (the base) and END are model folders, or END is an adapter of START of a higher rank; OUT gets PEFT's two files, FOLDER what a
server of the adapter serves: START with it merged.

For each linear layer the best approximation of rank r of the difference (singular values). The error printed is the share of the
difference's squared norm that is lost; whether the policy still answers the same is evaluate.py's to say.
"""

import argparse
import json
import shutil
from pathlib import Path

import torch
from safetensors.torch import load_file, save_file

BASE = "SmolLM2-135M-Instruct"
LAYERS = ("q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj")


def factors(difference, rank):
    u, s, v = torch.linalg.svd(difference, full_matrices=False)
    root = s[:rank].sqrt()
    return (root[:, None] * v[:rank]).bfloat16().contiguous(), (u[:, :rank] * root).bfloat16().contiguous()


def end_of(folder, start, device):
    """The weights of a model, or of START with an adapter merged, unrounded."""
    if not (folder / "adapter_model.safetensors").is_file():
        return load_file(folder / "model.safetensors", device=device)
    config = json.loads((folder / "adapter_config.json").read_text())
    pairs, end = load_file(folder / "adapter_model.safetensors", device=device), dict(start)
    for name in (name for name in pairs if name.endswith(".lora_A.weight")):
        a, b = pairs[name].float(), pairs[name.replace(".lora_A.", ".lora_B.")].float()
        layer = name.removeprefix("base_model.model.").replace(".lora_A.", ".")
        end[layer] = start[layer].float() + config["lora_alpha"] / config["r"] * b @ a
    return end


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("start", type=Path)
    parser.add_argument("end", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument("--rank", type=int, default=24)
    parser.add_argument("--merged", type=Path)
    given = parser.parse_args()
    device = "cuda" if torch.cuda.is_available() else "cpu"
    start = load_file(given.start / "model.safetensors", device=device)
    end = end_of(given.end, start, device)
    adapter, merged, lost, whole, elsewhere = {}, dict(start), 0.0, 0.0, 0.0
    for name in start:
        difference = end[name].float() - start[name].float()
        if name.removesuffix(".weight").rpartition(".")[2] not in LAYERS:
            elsewhere += float(difference.square().sum())
            continue
        a, b = factors(difference, given.rank)
        prefix = f"base_model.model.{name.removesuffix('.weight')}"
        adapter |= {f"{prefix}.lora_A.weight": a.cpu(), f"{prefix}.lora_B.weight": b.cpu()}
        merged[name] = (start[name].float() + b.float() @ a.float()).bfloat16()
        whole += float(difference.square().sum())
        lost += float((difference - b.float() @ a.float()).square().sum())
    if given.merged:
        shutil.copytree(given.start, given.merged, dirs_exist_ok=True)
        save_file({name: tensor.cpu() for name, tensor in merged.items()}, given.merged / "model.safetensors", {"format": "pt"})
    given.out.mkdir(parents=True, exist_ok=True)
    save_file(adapter, given.out / "adapter_model.safetensors", metadata={"format": "pt"})
    config = {"peft_type": "LORA", "task_type": "CAUSAL_LM", "r": given.rank, "lora_alpha": given.rank, "lora_dropout": 0.0}
    config |= {"bias": "none", "target_modules": list(LAYERS), "inference_mode": True, "base_model_name_or_path": BASE}
    (given.out / "adapter_config.json").write_text(json.dumps(config, indent=2))
    total = whole + elsewhere
    print(json.dumps({"rank": given.rank, "lost": lost / max(whole, 1e-30), "outside_of_layers": elsewhere / max(total, 1e-30)}))


if __name__ == "__main__":
    main()
