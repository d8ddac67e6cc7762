"""Vectors in 8 bits: what is kept of a row, and how it is made."""

from __future__ import annotations

from dataclasses import dataclass

import torch

LEVELS = 127


@dataclass(frozen=True, slots=True)
class EightBit:
    """`codes` (rows, dimension) int8 and `scales` (rows,) float32: a vector is about its codes times its scale."""

    codes: torch.Tensor
    scales: torch.Tensor


def to_eight_bit(vectors: torch.Tensor) -> EightBit:
    """Each row scaled by its largest magnitude, rounded to the nearest of 255 levels."""
    full = vectors.float()
    scales = full.abs().amax(dim=1).clamp(min=torch.finfo(torch.float32).tiny) / LEVELS
    return EightBit((full / scales[:, None]).round().to(torch.int8), scales)
