"""Reasons for which several rules could not look."""

from __future__ import annotations

NO_DUMP_AND_NO_EXIT = "no flight-recorder dump and no exit status of any rank"
NO_CALLS_AND_NO_EXIT = "no record of collective calls and no exit status of any rank"
ONE_HOST = "only one host: there is nothing to compare it with"
