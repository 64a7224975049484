"""Columns of flight recorders, kept once: ranks differ little, and the records of a job of thousands must not be kept twice."""

from __future__ import annotations

from functools import lru_cache
from typing import TypeVar

from ddpdoctor.evidence.recorder import State

T = TypeVar("T")
SHARED = 1 << 10  # columns that are kept


@lru_cache(maxsize=SHARED)
def shared(column: tuple[T, ...]) -> tuple[T, ...]:
    """The first of all equal tuples: what ranks share is kept and looked at once."""
    return column


@lru_cache(maxsize=SHARED)
def shared_states(column: tuple[State, ...]) -> tuple[State, ...]:
    """The first of all equal tuples of states, in a cache of their own."""
    return column
