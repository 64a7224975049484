"""Tracks to what the ranks did differently: draws, scalers, handles; and at which of the user's lines."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ddpdoctor.engine import diagnose
from ddpdoctor.evidence import Evidence, RankFacts
from ddpdoctor.evidence.track import Gradient, Line, OverflowSeen, StepSeen, Table, Track, UnwaitedSeen

LINES = {name: Line(file="train.py", line=line, function="main") for name, line in (("forward", 5), ("backward", 6))}
STEP = Line(file="train.py", line=7, function="main")
Make = Callable[[int, int], dict[str, Any]]


def found(make: Make, *, nproc: int = 3, steps: int = 4, **track: Any) -> list[str]:
    """Code, ranks and first line of the findings about ranks whose step differs by what `make(rank, step)` says."""
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
        value = Track(
            method="xxh3", every=1, start="w", last="w", tables={"w": Table(digests={"w": "0"})}, steps=seen, **own
        )
        ranks.append(RankFacts(rank=rank, host="a", facts=(value,)))
    report = diagnose(Evidence(ranks=tuple(ranks), about_job=True))
    return [f"{f.code} {list(f.ranks)} {f.where[0].line if f.where else '-'}" for f in report.findings]


def drawing(*states: Callable[[int, int], int]) -> Make:
    return lambda rank, step: {"random": tuple({"torch": state(rank, step)} for state in states)}


def test_draws_are_the_same_only_where_ranks_draw() -> None:
    both = drawing(lambda _, step: 3 * step, lambda _, step: 3 * step + 1)
    assert found(both) == ["DDP516 [0, 1, 2] 5"] * 2  # within the steps, and between them
    assert found(drawing(lambda *_: 1, lambda *_: 1)) == []
    assert found(drawing(lambda rank, step: 99 * rank + 3 * step, lambda rank, step: 99 * rank + 3 * step + 1)) == []


def test_a_step_left_out_by_one_scaler_is_told_with_its_line() -> None:
    left_out = OverflowSeen(step=1, forwards=2, scale=1024.0, line=STEP)

    def make(rank: int, step: int) -> dict[str, Any]:
        return {"step": step - 1 if rank == 2 and step > 1 else step, "scale": 1024.0}

    assert found(make, overflows=[(), (), (left_out,)])[0] == "DDP510 [2] 7"


def test_scalers_that_leave_a_step_out_together_are_no_finding() -> None:
    left_out = OverflowSeen(step=1, forwards=2, scale=1024.0, line=STEP)

    def make(_rank: int, step: int) -> dict[str, Any]:
        return {"step": step - 1 if step > 1 else step, "scale": 1024.0}

    assert found(make, overflows=[(left_out,)] * 3) == []


def test_a_scale_of_ones_own_is_a_setting() -> None:
    assert found(lambda rank, _: {"scale": 512.0 if rank == 1 else 1024.0}) == ["DDP506 [1] 7"]


def gradient(local: float) -> dict[str, Gradient]:
    return {"w": Gradient(digest="g", reduced=local, local=local, count=1, standing="reduced")}


def test_a_gradient_that_is_not_finite_points_to_the_backward_or_to_the_input() -> None:
    def of_one(rank: int, step: int) -> dict[str, Any]:
        return {"gradients": gradient(float("nan") if (rank, step) == (1, 2) else 1.0)}

    assert found(of_one)[0] == "DDP517 [1] 6"
    assert found(lambda rank, step: {**of_one(rank, step), "finite": (rank, step) != (1, 2)})[0] == "DDP517 [1] 5"


def test_a_gradient_that_overflows_under_a_scaler_is_no_finding() -> None:
    def make(rank: int, step: int) -> dict[str, Any]:
        return {"gradients": gradient(float("inf") if (rank, step) == (1, 2) else 1.0), "scale": 65536.0}

    assert found(make) == []


def test_a_handle_thrown_away_is_told_with_its_call() -> None:
    thrown = UnwaitedSeen(op="all_reduce", step=2, line=LINES["forward"])
    assert found(lambda *_: {}, unwaited=[(thrown,), (), (thrown,)]) == ["DDP520 [0, 2] 5"]
