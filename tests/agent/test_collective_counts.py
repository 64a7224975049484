"""Collectives after an evaluation are counted, but for those by which a library's loader hands out batches or random states."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from ddpdoctor.agent.inside import verify_sync_feature
from ddpdoctor.agent.inside.rank_process import Rank

LIBRARY = """
class Loader:
    def __iter__(self):
        broadcast("random states")
        yield from range(2)

def gather(metric):
    broadcast(metric)
"""
Library = dict[str, Any]


@pytest.fixture
def library(tmp_path: Path) -> Library:
    """A library's loader and its gather, made of one collective."""
    c10d = ModuleType("c10d")
    c10d.broadcast = lambda _tensor: None  # type: ignore[attr-defined]
    verify_sync_feature.imported(c10d, Rank(str(tmp_path)))
    names: Library = {"broadcast": c10d.broadcast}  # type: ignore[attr-defined]
    exec(compile(LIBRARY, f"{os.sep}site-packages{os.sep}accelerate{os.sep}data_loader.py", "exec"), names)
    return names


class OwnLoader:
    """One that the user wrote, with a collective of the user's own in it."""

    def __init__(self, broadcast: Callable[[str], None]) -> None:
        self.broadcast = broadcast

    def __iter__(self) -> Iterator[int]:
        self.broadcast("the metric of the last epoch")
        return iter(range(2))


@pytest.mark.parametrize(
    ("call", "counted"),
    [
        (lambda library: list(library["Loader"]()), 0),
        (lambda library: library["gather"]("metric"), 1),
        (lambda library: list(OwnLoader(library["broadcast"])), 1),
    ],
    ids=["a library's loader", "a library's gather", "a loader of the user's"],
)
def test_what_a_librarys_loader_calls_brings_no_metric_together(
    call: Callable[[Library], object], counted: int, library: Library
) -> None:
    before = verify_sync_feature._called
    call(library)
    assert verify_sync_feature._called - before == counted
