"""How a flat index is to be searched on GPUs: a value that settings make and `opening` carries out. Imports no engine."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Engine = Literal["auto", "fused", "torch", "faiss", "eight_bit"]
HostRows = Literal["mapped", "pinned"]
Placement = Literal["cpu", "auto", "fused", "torch", "faiss", "eight_bit"]


@dataclass(frozen=True, slots=True)
class GpuPlan:
    """`devices` as torch names them ("cuda:0"), none for all of the host; what follows is for `eight_bit` alone."""

    engine: Engine = "auto"
    devices: tuple[str, ...] = ()
    candidates: int = 16
    host_rows: HostRows = "mapped"
