"""What a log ends with: its lines as a terminal shows them, and the error that they name.

A log of Ray has colours, progress bars that write over themselves, and the name of a process before each of its lines; the error
that ended a run may stand hundreds of lines before the end, since the other processes tell of their own end after it.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

LONGEST, LONGEST_LINE = 300, 4_000
"""Characters of an error that are told, and of a line that are shown."""
_CODES = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")
_PROCESS = re.compile(r"^(?:\((?:[^()]|\([^()]*\))*\bpid=[^()]*\)\s)+(?:ERROR [\d-]+ [\d:.]+ \[[^\]]*\]\s)?")
_BAR = re.compile(r"(?<!\d)\d+%\|")
_ERROR = re.compile(r"^(?:[A-Za-z_]\w*\.)*[A-Z]\w*(?:Error|Exception|Interrupt|Exit)(?:: \S.*)?$")
_OTHERS = ("ray.exceptions.", "torch.distributed.elastic", "RuntimeError: Engine core", "vllm.v1.engine.exceptions.EngineDeadError")
"""What processes say of the end of others."""
_NO_MEMORY = ("OutOfMemoryError", "CUDA out of memory")
MEMORY_ADVICE = (
    "Take a smaller micro_batch, rollout.context_tokens or resources.vllm_memory (vllm_cache_gib), or let fewer runs share a GPU."
)


def shown(log: bytes) -> list[str]:
    """Lines that say something, without colour codes, each as it was last written over and not longer than `LONGEST_LINE`; of a
    progress bar its last state."""
    lines: list[str] = []
    for line in log.decode(errors="replace").split("\n"):
        last = next((part for part in reversed(line.split("\r")) if part), "")
        # First, since nothing bounds how long a line is that code of a run's own has written.
        written = _CODES.sub("", _cut(last.rstrip(), LONGEST_LINE))
        if not _PROCESS.sub("", f"{written} ").strip():
            continue
        if lines and (bar := _bar(written)) is not None and bar == _bar(lines[-1]):
            lines.pop()
        lines.append(written)
    return lines


def _bar(line: str) -> str | None:
    """What stands before the share of a progress bar; None of a line without one."""
    share = _BAR.search(line)
    return line[: share.start()].rstrip() if share else None


def _cut(text: str, longest: int) -> str:
    return text if len(text) <= longest else text[: longest - 1] + "…"


def named_error(lines: Sequence[str]) -> str:
    """The last error that Python names in these lines, rather one of a process itself than one of another's end; or nothing."""
    errors = [line for line in (_PROCESS.sub("", line) for line in lines) if _ERROR.match(line)]
    own = [line for line in errors if not line.startswith(_OTHERS)]
    if not errors:
        return ""
    error = (own or errors)[-1]
    told = _cut(error, LONGEST)
    return f"{told} {MEMORY_ADVICE}" if any(sign in error for sign in _NO_MEMORY) else told
