"""A job that crawls ends by itself, and is then told which rank, or what, it waited for."""

from __future__ import annotations

from typing import Any

import pytest

from ddpdoctor.launch.sick_jobs import faults
from tests.ward.jobs import torchrun, watch


def findings(code: str, *arguments: str, nproc: int) -> list[dict[str, Any]]:
    """What is said of a slow job, which is not failed for it."""
    watched = watch(torchrun(faults()[code], nproc, arguments), stall_after=30)
    assert watched.ended.code == 0, watched.transcript
    return [found for found in watched.report["findings"] if found["code"].startswith("DDP60")]


@pytest.mark.parametrize(
    ("how", "culprit", "phase"),
    [
        ("input", 2, "before its forward"),
        pytest.param("forward", 0, "in its forward and backward", marks=pytest.mark.slow),
        pytest.param("backward", 1, "in its forward and backward", marks=pytest.mark.matrix),
    ],
)
def test_the_slow_rank_is_named_with_what_it_is_slow_at(how: str, culprit: int, phase: str) -> None:
    (found,) = findings("DDP601", "--culprit", str(culprit), "--how", how, "--seconds", "0.1", nproc=3)
    assert (found["code"], found["ranks"], found["measured"]["phase"]) == ("DDP601", [culprit], phase)
    assert 0.05 < found["measured"]["seconds_late"] < 0.5
    assert found["where"][0]["file"].endswith("patient.py")


@pytest.mark.slow
def test_a_slow_loader_is_named() -> None:
    (found,) = findings("DDP602", nproc=2)
    assert (found["code"], found["ranks"]) == ("DDP602", [0, 1])
