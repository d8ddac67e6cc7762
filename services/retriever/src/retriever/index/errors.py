"""Errors of work on an index that others than the index tell apart."""

from __future__ import annotations

from parallelsearch.errors import ConfigurationError


class AtWork(ConfigurationError):
    """Another build works in the folder of the index."""
