"""What msgspec raises for JSON from outside that is none, or is not of the type that was asked for."""

from __future__ import annotations

import msgspec

JSON_ERRORS = (msgspec.MsgspecError, UnicodeDecodeError, RecursionError)
"""Of a document that is cut off or of another type, of a text that is not UTF-8, and of one that is nested too deep."""
