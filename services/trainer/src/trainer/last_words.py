"""What a log ends with: its lines as a terminal shows them, and the error that they name.

A log of Ray has colours, progress bars that write over themselves, and the name of a process before each of its lines; the error
that ended a run may stand hundreds of lines before the end, since the other processes tell of their own end after it.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

LONGEST = 300
"""Characters of an error that are told."""
_CODES = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")
_PROCESS = re.compile(r"^(?:\((?:[^()]|\([^()]*\))*\bpid=[^()]*\)\s)+(?:ERROR [\d-]+ [\d:.]+ \[[^\]]*\]\s)?")
_BAR = re.compile(r"^(.*?)\s*\d+%\|")
_ERROR = re.compile(r"^(?:[A-Za-z_]\w*\.)*[A-Z]\w*(?:Error|Exception|Interrupt|Exit)(?:: \S.*)?$")
_OTHERS = ("ray.exceptions.", "torch.distributed.elastic", "RuntimeError: Engine core", "vllm.v1.engine.exceptions.EngineDeadError")
"""What processes say of the end of others."""
_NO_MEMORY = ("OutOfMemoryError", "CUDA out of memory")
MEMORY_ADVICE = (
    "Take a smaller micro_batch, rollout.context_tokens or resources.vllm_memory (vllm_cache_gib), or let fewer runs share a GPU."
)


def shown(log: bytes) -> list[str]:
    """Lines that say something, without colour codes, each as it was last written over; of a progress bar its last state."""
    lines: list[str] = []
    for line in log.decode(errors="replace").split("\n"):
        written = _CODES.sub("", next((part for part in reversed(line.split("\r")) if part), ""))
        if not _PROCESS.sub("", f"{written} ").strip():
            continue
        bar, before = _BAR.match(written), _BAR.match(lines[-1]) if lines else None
        if bar and before and bar[1] == before[1]:
            lines.pop()
        lines.append(written)
    return lines


def named_error(lines: Sequence[str]) -> str:
    """The last error that Python names in these lines, rather one of a process itself than one of another's end; or nothing."""
    errors = [line for line in (_PROCESS.sub("", line) for line in lines) if _ERROR.match(line)]
    own = [line for line in errors if not line.startswith(_OTHERS)]
    if not errors:
        return ""
    error = (own or errors)[-1]
    told = error if len(error) <= LONGEST else error[: LONGEST - 1] + "…"
    return f"{told} {MEMORY_ADVICE}" if any(sign in error for sign in _NO_MEMORY) else told
