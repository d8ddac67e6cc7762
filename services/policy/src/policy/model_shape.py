"""The shape of a model: the settings that change what its weights mean, and every tensor's dimensions. Reads headers, no tensor."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from safetensors import SafetensorError, safe_open

from parallelsearch.errors import ConfigurationError
from policy.checkpoint import AdapterConfig, ModelConfig, WeightsIndex, read_fields, read_json

INDEX = "model.safetensors.index.json"
SETTINGS = (
    "model_type",
    "hidden_size",
    "intermediate_size",
    "num_hidden_layers",
    "num_attention_heads",
    "num_key_value_heads",
    "head_dim",
    "vocab_size",
    "hidden_act",
    "tie_word_embeddings",
)
FLOATS = frozenset({"F32", "F16", "BF16"})
HEAD = "lm_head.weight"
LISTED = 3


@dataclass(frozen=True, slots=True)
class Tensor:
    shape: tuple[int, ...]
    dtype: str


@dataclass(frozen=True, slots=True)
class ModelShape:
    settings: Mapping[str, Any]
    tensors: Mapping[str, Tensor]


def weight_files(directory: Path) -> list[Path]:
    """The safetensors that make up the model: those its index names, else all that are not an adapter's.

    Raises:
        ConfigurationError: the index cannot be read, or names a file that is not there.
    """
    index = directory / INDEX
    if not index.is_file():
        return sorted(path for path in directory.glob("*.safetensors") if not path.name.startswith("adapter_"))
    names = sorted(set(read_fields(WeightsIndex, index, directory.name).weight_map.values()))
    missing = [name for name in names if "/" in name or not (directory / name).is_file()]
    if missing:
        raise ConfigurationError(f"{directory.name}: {missing[0]} is named by {INDEX}, but is missing. Copy the checkpoint again.")
    return [directory / name for name in names]


def read_tensors(files: Sequence[Path]) -> dict[str, Tensor]:
    """Raises:
    ConfigurationError: a file is no safetensors file, or is cut short.
    """
    tensors: dict[str, Tensor] = {}
    for file in files:
        try:
            with safe_open(file, "np") as opened:
                for name in opened.keys():  # noqa: SIM118  # not a mapping
                    part = opened.get_slice(name)
                    tensors[name] = Tensor(tuple(part.get_shape()), str(part.get_dtype()))
        except (SafetensorError, OSError) as error:
            raise ConfigurationError(f"{file.name} is no whole safetensors file ({error}). Copy the checkpoint again.") from None
    return tensors


def read_shape(directory: Path) -> ModelShape:
    """Raises:
    ConfigurationError: config or weights cannot be read.
    """
    config = read_json(directory / "config.json", directory.name)
    settings = {name: config[name] for name in SETTINGS if name in config}
    theta = read_fields(ModelConfig, directory / "config.json", directory.name).theta
    if theta is not None:
        settings["rope_theta"] = theta
    return ModelShape(settings, read_tensors(weight_files(directory)))


def differences(candidate: ModelShape, served: ModelShape) -> list[str]:
    """Why `candidate` cannot take the place of `served`, in words; empty if it can. What one of them leaves out is not compared."""
    found = [
        f"{name} is {candidate.settings[name]}, not {served.settings[name]}"
        for name in served.settings
        if name in candidate.settings and candidate.settings[name] != served.settings[name]
    ]
    # A tied head may be written out or left out; it is the embedding either way.
    tied = {HEAD} if served.settings.get("tie_word_embeddings") else set()
    ours, theirs = served.tensors.keys() - tied, candidate.tensors.keys() - tied
    found += [f"{name} is missing" for name in sorted(ours - theirs)[:LISTED]]
    found += [f"{name} is not in the served model" for name in sorted(theirs - ours)[:LISTED]]
    for name in sorted(ours & theirs):
        mine, other = served.tensors[name], candidate.tensors[name]
        if mine.shape != other.shape:
            found.append(f"{name} is {list(other.shape)}, not {list(mine.shape)}")
        elif mine.dtype != other.dtype and not {mine.dtype, other.dtype} <= FLOATS:
            found.append(f"{name} is {other.dtype}, not {mine.dtype}")
    return found


def adapter_differences(directory: Path, served: ModelShape) -> list[str]:
    """Why a LoRA adapter does not fit the served model, in words; empty if it does.

    Raises:
        ConfigurationError: its files cannot be read.
    """
    config = read_fields(AdapterConfig, directory / "adapter_config.json", directory.name)
    if config.peft_type != "LORA" or config.modules_to_save:
        return ["only LoRA adapters without further trained modules can be merged"]
    tensors = read_tensors([directory / "adapter_model.safetensors"])
    found = [] if tensors else ["it holds no tensor"]
    for name, tensor in sorted(tensors.items()):
        module, _, side = name.removeprefix("base_model.model.").removesuffix(".weight").rpartition(".lora_")
        target = served.tensors.get(f"{module}.weight")
        if side not in {"A", "B"} or target is None:
            found.append(f"{name} belongs to nothing in the served model")
        elif len(tensor.shape) != 2 or tensor.shape[side == "A"] != target.shape[side == "A"]:
            found.append(f"{name} is {list(tensor.shape)}, which does not fit {list(target.shape)}")
    return found


def summary(found: Sequence[str]) -> str:
    """The first few differences as one clause."""
    more = f" and {len(found) - LISTED} more" if len(found) > LISTED else ""
    return "; ".join(found[:LISTED]) + more
