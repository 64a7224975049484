"""What to do about a raised error for which no line of the user's own is to blame."""

from __future__ import annotations

import pytest

from ddpdoctor.engine import diagnose
from tests.rank_ends import LOST_PEER, ended, raised


@pytest.mark.parametrize(
    ("signal", "advice"),
    [
        ("Killed. ", "find out who killed the worker"),
        ("Segmentation fault. ", "find the library that crashed in the worker"),
    ],
)
def test_a_worker_that_crashed_was_not_killed_for_memory(signal: str, advice: str) -> None:
    message = f"DataLoader worker (pid 18343) is killed by signal: {signal}"
    first, *_ = diagnose(ended(LOST_PEER, raised(message, "RuntimeError"), LOST_PEER)).findings
    assert first.code == "DDP401"
    assert first.remedy is not None
    assert first.remedy.startswith(advice)
