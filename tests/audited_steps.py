"""Audited steps of all ranks, as their tracks hold them, and what is found in them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ddpdoctor.engine import diagnose
from ddpdoctor.evidence import Evidence, RankFacts
from ddpdoctor.evidence.audited_steps import Gradient, StepSeen
from ddpdoctor.evidence.frames import Frame
from ddpdoctor.evidence.training_trace import Table, Track

LINES = {name: Frame(file="train.py", line=line, function="main") for name, line in (("forward", 5), ("backward", 6))}
STEP = Frame(file="train.py", line=7, function="main")
Make = Callable[[int, int], dict[str, Any]]


def found(make: Make, *, nproc: int = 3, steps: int = 4, **track: Any) -> list[str]:
    """Code, ranks and first line of the findings about `job_of` the same."""
    report = diagnose(job_of(make, nproc=nproc, steps=steps, **track))
    return [f"{f.code} {list(f.ranks)} {f.where[0].line if f.where else '-'}" for f in report.findings]


def job_of(make: Make, *, nproc: int = 3, steps: int = 4, **track: Any) -> Evidence:
    """Ranks whose step differs by what `make(rank, step)` says; of `track` each has its own."""
    ranks = []
    for rank in range(nproc):
        seen = tuple(
            StepSeen(
                **{
                    "step": step, "forwards": step + 1, "since": 0, "weights": "w", "after": "w", "lines": LINES, "line": STEP,
                    **make(rank, step),
                }
            )
            for step in range(steps)
        )  # fmt: skip
        own = {name: values[rank] for name, values in track.items()}
        held = {"start": "w", "tables": {"w": Table(digests={"w": "0"})}}
        value = Track(**{"method": "xxh3", "every": 1, "steps": seen, **held, **own})
        ranks.append(RankFacts(rank=rank, host="a", facts=(value,)))
    return Evidence(ranks=tuple(ranks), about_job=True)


def gradient(local: float) -> dict[str, Gradient]:
    return {"w": Gradient(digest="g", reduced=local, local=local, count=1, standing="reduced")}
