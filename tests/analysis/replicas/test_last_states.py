"""The optimizer's state at the end, after the last step that was audited."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pytest

from ddpdoctor.engine import diagnose
from ddpdoctor.evidence import Evidence, RankFacts
from ddpdoctor.evidence.audited_steps import StepSeen
from ddpdoctor.evidence.training_trace import Left, LeftState, Table, Track
from ddpdoctor.workflows.verify_notes import not_comparable

NAMES = ("w.exp_avg", "w.exp_avg_sq", "b.exp_avg", "b.exp_avg_sq")
STEPS = 9


def track(
    end: str,
    *,
    state: str | None = "1111",
    names: Sequence[str] = NAMES,
    shadowed: int = 0,
    weights: str = "w",
    steps: int = STEPS,
    optimizer: str = "Adam",
    moment: str = "pass 2",
    later: int | None = 0,
) -> Track:
    """A rank with this state before its only audited step, and at the end; each letter is one tensor's fingerprint."""
    before = None if state is None else dict(zip(NAMES, state, strict=False))
    seen = StepSeen(step=4, forwards=5, since=0, weights="w", after="w", state=before, optimizer=optimizer)
    return Track(
        method="linear", every=8, start="w", left=(Left(step=steps, weights=weights),), steps=(seen,), steps_made=steps,
        tables={key: Table(digests={"w": key}) for key in ("w", weights)}, forwards_made=steps,
        left_state=LeftState(
            step=steps, digests=dict(zip(names, end, strict=True)), shadowed=shadowed, moment=moment, later=later
        ),
    )  # fmt: skip


def found(*tracks: Track) -> list[str]:
    ranks = tuple(RankFacts(rank=rank, host="a", facts=(one,)) for rank, one in enumerate(tracks))
    findings = diagnose(Evidence(ranks=ranks, about_job=True)).findings
    return [f"{one.code} {list(one.ranks)} {one.measured['step']} {one.measured['tensors']}" for one in findings]


@pytest.mark.parametrize("rank", [0, 1, 2])
def test_a_moment_that_one_rank_alone_has_otherwise_at_the_end_is_found(rank: int) -> None:
    ends = ["2222"] * 3
    ends[rank] = "2322"
    assert found(*map(track, ends)) == [f"DDP507 [{rank}] {STEPS} ['w.exp_avg_sq']"]


def test_all_of_it_on_another_rank_than_0_is_found() -> None:
    assert found(track("2222"), track("2222"), track("3333")) == [f"DDP507 [2] {STEPS} {list(NAMES)}"]


def test_weights_that_differ_at_the_end_come_first() -> None:
    (first,) = found(track("2222"), track("2222"), track("2322", weights="v"))
    assert first.startswith("DDP503 [2]")


HEALTHY: Mapping[str, tuple[Track, ...]] = {
    "equal": (track("2222"), track("2222")),
    "rank 0 has loaded another one": (track("3333"), track("2222"), track("2222")),
    "rank 0 of two has loaded another one": (track("3333"), track("2222")),
    "it was each rank's own before": (track("2222", state="1111"), track("2322", state="1211")),
    "nobody compares it": (track("2222", state=None), track("2322", state=None)),
    "none was there before": (track("2222", state=""), track("2322", state="")),
    "one rank has dropped a part": (track("2222"), track("222", names=NAMES[:3])),
    "a rank ran out of data inside Join": (track("2222"), track("2322", shadowed=2)),
    "a rank was looked at in another moment": (track("2222"), track("2322", moment="end")),
    "it was written after the last step": (track("2222", moment="end"), track("2322", moment="end", later=1)),
    "a rank made other steps": (track("2222"), track("2322", steps=STEPS - 1)),
}


@pytest.mark.parametrize("case", HEALTHY)
def test_what_may_differ_at_the_end_is_silent(case: str) -> None:
    assert [one for one in found(*HEALTHY[case]) if one.startswith("DDP507") and f" {STEPS} " in one] == []


def test_state_of_which_there_is_no_second_copy_is_said_to_be_not_comparable() -> None:
    zero = [track("2222", state=None, optimizer="ZeroRedundancyOptimizer") for _ in range(2)]
    (note,) = not_comparable(zero)
    assert note.startswith("each rank keeps its own part of ZeroRedundancyOptimizer's state: an error in")
    assert not_comparable([track("2222"), track("2222")]) == ()
