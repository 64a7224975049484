"""Ranks called one collective with different reduce operations or roots, which the flight recorder does not see."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

from ddpdoctor.analysis.majority import vote
from ddpdoctor.evidence import PerRank
from ddpdoctor.evidence.ranks import CollectiveCall, CollectiveCalls
from ddpdoctor.model import Finding, Rule, Severity, Where, group_ranks

RULE = Rule(
    code="DDP304",
    name="collective-argument-mismatch",
    summary="ranks called one collective with different reduce operations or roots",
    severity=Severity.FAIL,
    shown_by="the dumps show one operation with different roots or reduce operations",
    remedy="pass the same `op`, `src` or `dst` on every rank: a root is the same global rank for all, not `rank`",
    explains=("DDP301", "DDP305", "DDP306", "DDP307", "DDP314", "DDP318", "DDP408"),
)
Argument = Literal["reduce_op", "root"]
SPOKEN: dict[Argument, str] = {"reduce_op": "op", "root": "root"}


def check(calls: PerRank[CollectiveCalls]) -> Iterator[Finding]:
    """The first call of each kind of difference: the ranks by what they passed."""
    issued: dict[tuple[str, int, str], dict[int, CollectiveCall]] = {}
    for entry in calls:
        for call in entry.value.calls:
            if call.seq is not None:
                issued.setdefault((call.group, call.seq, call.op), {})[entry.rank] = call
    for argument in SPOKEN:
        found = next(
            (finding for key in sorted(issued, key=_order) for finding in _compare(argument, issued[key])), None
        )
        if found is not None:
            yield found


def _order(key: tuple[str, int, str]) -> tuple[int, str]:
    return key[1], key[0]


def _compare(argument: Argument, by_rank: dict[int, CollectiveCall]) -> Iterator[Finding]:
    passed = {rank: value for rank, call in by_rank.items() if (value := getattr(call, argument)) is not None}
    if len(set(passed.values())) < 2:
        return
    sides = vote(passed)
    by_value: dict[object, list[int]] = {}
    for rank in (*sides.minority, *sides.majority):
        by_value.setdefault(passed[rank], []).append(rank)
    said = " and ".join(f"{group_ranks(ranks)} {SPOKEN[argument]} {value}" for value, ranks in by_value.items())
    call = by_rank[sides.minority[0]]
    yield RULE.finding(
        f"{call.op} #{call.seq} was called with different {SPOKEN[argument]}s: {said}",
        ranks=sides.minority,
        where=[
            Where.at(place, rank=rank, note=f"{call.op} #{call.seq}, {SPOKEN[argument]} {passed[rank]}")
            for rank in (*sides.minority, *sides.majority)
            if (place := by_rank[rank].place) is not None
        ],
        argument=argument,
        seq=call.seq,
        passed={str(rank): str(value) for rank, value in sorted(passed.items())},
    )
