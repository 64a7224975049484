"""Points in time in words."""

from __future__ import annotations

from datetime import datetime, timezone


def utc(seconds: float) -> str:
    """`2026-11-22 18:30:05 UTC` for seconds since the epoch; `an unknown time` for a number that is no time."""
    try:
        return f"{datetime.fromtimestamp(seconds, tz=timezone.utc):%Y-%m-%d %H:%M:%S} UTC"
    except (ValueError, OverflowError, OSError):  # a case may hold any number
        return "an unknown time"
