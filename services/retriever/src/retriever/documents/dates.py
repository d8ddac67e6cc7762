"""Dates as documents write them."""

from __future__ import annotations

from datetime import UTC, datetime
from email.utils import parsedate_to_datetime


def moment_of(text: str) -> datetime | None:
    """A day or a moment in ISO 8601, or as mails and web servers write it, as a moment; UTC where no zone is given."""
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        try:
            moment = parsedate_to_datetime(text)
        except (ValueError, OverflowError):  # the latter for numbers of many digits
            return None
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)
