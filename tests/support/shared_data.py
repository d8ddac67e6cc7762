"""Where the real data sets lie, which are no part of the repository: beside the checkout, or where PARALLELSEARCH_SHARED says."""

import os
from pathlib import Path

import pytest


def shared_folder() -> Path | None:
    return next((folder for folder in _candidates() if (folder / "data").is_dir()), None)


def shared_data() -> Path:
    """The folder of data sets; the test is skipped, and says why, where there is none."""
    found = shared_folder()
    if found is not None:
        return found / "data"
    places = ", ".join(map(str, _candidates()))
    pytest.skip(f"SKIPPED, NOT PASSED: the real data sets are not in {places}; set PARALLELSEARCH_SHARED")


def _candidates() -> list[Path]:
    named = os.environ.get("PARALLELSEARCH_SHARED")
    return [Path(named)] if named else [folder / "shared" for folder in Path(__file__).resolve().parents[2:4]]
