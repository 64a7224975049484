"""Ranks called one collective with different reduce operations or roots, which the flight recorder does not see."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Literal, TypeAlias

from ddpdoctor.analysis.majority import vote
from ddpdoctor.evidence import PerRank, by_rank
from ddpdoctor.evidence.frames import Frame
from ddpdoctor.evidence.ranks import CollectiveCall, CollectiveCalls
from ddpdoctor.evidence.stacks import GivenRoot
from ddpdoctor.grouping import grouped
from ddpdoctor.messages.majority import tie_note
from ddpdoctor.model import Finding, Rule, Severity, SkipCheck, Where, group_ranks

RULE = Rule(
    code="DDP304",
    name="collective-argument-mismatch",
    summary="ranks called one collective with different reduce operations or roots",
    severity=Severity.FAIL,
    shown_by="the dumps show one operation with different roots or reduce operations",
    remedy="pass the same `op`, `src` or `dst` on every rank: a root is the same global rank for all, not `rank`",
    explains=("DDP301", "DDP305", "DDP306", "DDP307", "DDP312", "DDP314", "DDP318", "DDP408"),
)
Argument = Literal["reduce_op", "root"]
ByRank: TypeAlias = dict[int, CollectiveCall]
ALIKE = "the ranks of other groups pass the same as their peers at this call"
SPOKEN: dict[Argument, str] = {"reduce_op": "op", "root": "root"}


def check(calls: PerRank[CollectiveCalls] | None, given: PerRank[GivenRoot] | None) -> Iterator[Finding]:
    """The first call of each kind of difference: the ranks by what they passed."""
    if calls is None and given is None:
        raise SkipCheck("no record of the arguments of calls, and no rank whose stack shows the root of its call")
    if calls is None:
        yield from _by_stacks(given) if given is not None else ()
        return
    issued: dict[tuple[str, int, str], dict[int, CollectiveCall]] = {}
    for entry in calls:
        for call in entry.value.calls:
            if call.seq is not None:
                issued.setdefault((call.group, call.seq, call.op), {})[entry.rank] = call
    for argument in SPOKEN:
        found = next(
            (finding for key in sorted(issued, key=_order) for finding in _compare(argument, issued[key], issued)), None
        )
        if found is not None:
            yield found


def _by_stacks(given: PerRank[GivenRoot]) -> Iterator[Finding]:
    """Ranks that wait at one line with different roots."""
    of_rank = by_rank(given)
    roots = {rank: call.root for rank, call in of_rank.items()}
    if len({*roots.values()}) < 2:
        return
    sides = vote(roots)
    passed = " and ".join(
        f"{group_ranks(side)} root {roots[side[0]]}" for side in (sides.sides if sides.tied else sides.sides[::-1])
    )
    order = (*sides.minority, *(rank for rank in sorted(roots) if rank not in sides.minority))
    yield RULE.finding(
        f"{of_rank[order[0]].op} was called with different roots: {passed}{tie_note(tied=sides.tied)}",
        ranks=sides.minority,
        where=[Where.at(of_rank[rank].place, rank=rank, note=f"root {roots[rank]}") for rank in order],
        argument="root",
        passed={str(rank): str(root) for rank, root in sorted(roots.items())},
    )


def _order(key: tuple[str, int, str]) -> tuple[int, str]:
    return key[1], key[0]


def _compare(argument: Argument, by_rank: ByRank, issued: Mapping[tuple[str, int, str], ByRank]) -> Iterator[Finding]:
    passed = {rank: value for rank, call in by_rank.items() if (value := getattr(call, argument)) is not None}
    if len(set(passed.values())) < 2:
        return
    sides = vote(passed)
    differing = _unlike_other_groups(argument, by_rank, issued.values()) if sides.tied else ()
    ranks = differing or sides.minority
    order = (*ranks, *(rank for rank in sorted(passed) if rank not in ranks))
    by_value = grouped((passed[rank], rank) for rank in order)
    arguments = " and ".join(f"{group_ranks(alike)} {SPOKEN[argument]} {value}" for value, alike in by_value.items())
    call = by_rank[ranks[0]]
    yield RULE.finding(
        f"{call.op} #{call.seq} was called with different {SPOKEN[argument]}s: {arguments}",
        ranks=ranks,
        where=[
            Where.at(place, rank=rank, note=f"{call.op} #{call.seq}, {SPOKEN[argument]} {passed[rank]}")
            for rank in order
            if (place := by_rank[rank].place) is not None
        ],
        details=(ALIKE,) if differing else (),
        argument=argument,
        seq=call.seq,
        passed={str(rank): str(value) for rank, value in sorted(passed.items())},
    )


def _unlike_other_groups(argument: Argument, by_rank: ByRank, calls: Iterable[ByRank]) -> tuple[int, ...]:
    """The ranks that pass what no rank of another group passes at the same call of its own group, where all of these agree.

    A root counts by its place in the group.
    """
    others = [
        call for call in calls if call is not by_rank and {*map(_at, call.values())} == {*map(_at, by_rank.values())}
    ]
    usual = {_part(argument, one, rank) for one in others for rank in one}
    unlike = tuple(rank for rank in by_rank if _part(argument, by_rank, rank) not in usual)
    return unlike if len(usual) == 1 and len(unlike) < len(by_rank) else ()


def _at(call: CollectiveCall) -> tuple[str, int | None, Frame | None]:
    return call.op, call.seq, call.place


def _part(argument: Argument, by_rank: ByRank, rank: int) -> object:
    value, members = getattr(by_rank[rank], argument), sorted(by_rank)
    return members.index(value) if argument == "root" and value in members else value
