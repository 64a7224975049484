"""A GIL that is held at both looks accuses a line of the user's own, and nobody on a machine that is too busy."""

from __future__ import annotations

from typing import Any

import pytest

from ddpdoctor.engine import diagnose
from tests.hangs import hang, rank, stack

OWN = stack(user=(70, "checksum"))
HELD: dict[str, Any] = {"holds_gil": True, "gil_never_free": True, "active": True}


@pytest.mark.parametrize(
    ("said", "accused"),
    [
        (rank(OWN, **HELD, state="R", cpu_share=0.98), True),
        (rank(OWN, **HELD, state="S", cpu_share=0.0), True),
        (rank(OWN, **HELD, state="R", cpu_share=0.05), False),
        (rank((), **HELD, native=("gc_collect_main (libpython3.11.so)",)), False),
    ],
    ids=["computes", "sleeps in C", "gets no CPU", "interpreter shuts down"],
)
def test_who_keeps_the_gil(said: tuple[Any, ...], accused: bool) -> None:
    codes = [found.code for found in diagnose(hang(said, rank())).findings]
    assert ("DDP311" in codes) is accused, codes
