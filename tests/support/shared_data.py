"""Where the real data sets lie, which are no part of the repository: beside the checkout, or where PARALLELSEARCH_SHARED says."""

import os
from pathlib import Path

import pytest


def shared_data() -> Path:
    """The folder of data sets; the test is skipped, and says why, where there is none."""
    named = os.environ.get("PARALLELSEARCH_SHARED")
    candidates = [Path(named)] if named else [folder / "shared" for folder in Path(__file__).resolve().parents[2:4]]
    for candidate in candidates:
        if (candidate / "data").is_dir():
            return candidate / "data"
    pytest.skip(f"SKIPPED, NOT PASSED: the real data sets are not in {', '.join(map(str, candidates))}; set PARALLELSEARCH_SHARED")
