"""Adapters of trained policies: those that the repository keeps, and how one is brought to a lower rank."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from safetensors import safe_open
from safetensors.torch import load_file, save_file

ROOT = Path(__file__).parents[2]
KEEP = ROOT / "benchmarks" / "gpu" / "training" / "keep_adapter.py"
KEPT = sorted(path.parent for folder in ("benchmarks", "services") for path in (ROOT / folder).rglob("adapter_config.json"))
BASE, BLOCKS, HIDDEN, KEYS, INNER = "SmolLM2-135M-Instruct", 30, 576, 192, 1536
WIDTHS = {
    "q_proj": (HIDDEN, HIDDEN),
    "k_proj": (HIDDEN, KEYS),
    "v_proj": (HIDDEN, KEYS),
    "o_proj": (HIDDEN, HIDDEN),
    "gate_proj": (HIDDEN, INNER),
    "up_proj": (HIDDEN, INNER),
    "down_proj": (INNER, HIDDEN),
}
LAYER = "model.layers.0.mlp.up_proj"
SCALE = 2


@pytest.mark.parametrize("folder", KEPT, ids=lambda path: str(path.relative_to(ROOT)))
def test_a_kept_adapter_fits_its_base_and_is_small(folder):
    config = json.loads((folder / "adapter_config.json").read_text())
    assert config["base_model_name_or_path"] == BASE
    weights = folder / "adapter_model.safetensors"
    assert weights.stat().st_size <= 15_000_000
    with safe_open(weights, "pt") as file:
        names = file.keys()
        shapes = {name: tuple(file.get_slice(name).get_shape()) for name in names}
    assert len(shapes) == 2 * BLOCKS * len(WIDTHS)
    for name, shape in shapes.items():
        inward, outward = WIDTHS[name.split(".")[-3]]
        assert shape == ((config["r"], inward) if ".lora_A." in name else (outward, config["r"]))


def test_adapters_are_kept():
    assert {"cold-mixed", "parallel", "sequential"} <= {folder.name for folder in KEPT}


def adapter(folder, rank):
    """An adapter of one layer whose update has the singular values 2 · (rank … 1), and that update."""
    out, _ = torch.linalg.qr(torch.randn(24, rank))
    within, _ = torch.linalg.qr(torch.randn(16, rank))
    values = torch.arange(rank, 0, -1.0)
    a, b = within.T.contiguous(), (out * values).contiguous()
    folder.mkdir()
    prefix = f"base_model.model.{LAYER}"
    save_file({f"{prefix}.lora_A.weight": a, f"{prefix}.lora_B.weight": b}, folder / "adapter_model.safetensors")
    (folder / "adapter_config.json").write_text(json.dumps({"r": rank, "lora_alpha": SCALE * rank}))
    return SCALE * b @ a, (SCALE * values) ** 2


def keep(start, end, out, rank):
    command = [sys.executable, str(KEEP), str(start), str(end), str(out), "--rank", str(rank)]
    return json.loads(subprocess.run(command, capture_output=True, text=True, check=True, timeout=120).stdout)


@pytest.mark.parametrize("merged", [False, True])
def test_a_policy_is_kept_at_a_lower_rank_and_what_is_lost_is_said(tmp_path, merged):
    torch.manual_seed(1)
    start = {f"{LAYER}.weight": torch.randn(24, 16), "model.norm.weight": torch.ones(16)}
    (tmp_path / "start").mkdir()
    save_file(start, tmp_path / "start" / "model.safetensors")
    update, squares = adapter(tmp_path / "end", 6)
    if merged:
        (tmp_path / "model").mkdir()
        save_file({**start, f"{LAYER}.weight": start[f"{LAYER}.weight"] + update}, tmp_path / "model" / "model.safetensors")
    told = keep(tmp_path / "start", tmp_path / ("model" if merged else "end"), tmp_path / "kept", 4)
    assert told["rank"] == 4 and told["outside_of_layers"] == 0
    assert told["lost"] == pytest.approx(float(squares[4:].sum() / squares.sum()), abs=1e-3)
    kept = load_file(tmp_path / "kept" / "adapter_model.safetensors")
    a, b = (kept[f"base_model.model.{LAYER}.lora_{side}.weight"].float() for side in "AB")
    off = (b @ a - update).square().sum() / update.square().sum()
    assert float(off) == pytest.approx(told["lost"], abs=1e-3)
