"""What the libraries that load models raise where the folder of one is damaged."""

from __future__ import annotations

from huggingface_hub.errors import StrictDataclassError
from safetensors import SafetensorError

DAMAGED = (
    OSError,
    ValueError,
    RuntimeError,
    ImportError,
    LookupError,
    TypeError,
    AttributeError,
    SafetensorError,
    StrictDataclassError,
)


def why(error: BaseException) -> str:
    """Its first line, or what it is called."""
    return next(iter(str(error).strip().splitlines()), "") or type(error).__name__
