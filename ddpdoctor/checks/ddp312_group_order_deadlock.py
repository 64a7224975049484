"""Ranks use several process groups in different orders, and wait for each other round in a circle."""

from __future__ import annotations

from collections.abc import Iterator

from ddpdoctor.analysis.collectives.groups.group_deadlock import Deadlock, Deadlocks
from ddpdoctor.analysis.collectives.groups.guarded_calls import GuardedCalls
from ddpdoctor.analysis.crashes import dead_threads
from ddpdoctor.evidence import PerRank
from ddpdoctor.evidence.ranks import ThreadErrors
from ddpdoctor.messages.collectives import names, unplaced, witnesses
from ddpdoctor.messages.majority import tie_note
from ddpdoctor.model import Finding, Rule, Severity, group_ranks, verb

RULE = Rule(
    code="DDP312",
    name="group-order-deadlock",
    summary="ranks use process groups in different orders and wait for each other",
    severity=Severity.FAIL,
    shown_by="ranks wait for each other in different process groups: `ddpdoctor diagnose` on the dumps of all ranks",
    remedy="make the calls of the groups in one order on all ranks",
    explains=("DDP307", "DDP314", "DDP318", "DDP408"),
)

OF_A_GROUP = (
    "give this call the group that others use at its line (`group=`); without `group=` it is a call of all ranks"
)


def check(
    deadlocks: Deadlocks, errors: PerRank[ThreadErrors] | None, guarded: GuardedCalls | None = None
) -> Iterator[Finding]:
    """The cycle: which ranks wait in which group, the minority first. One with a call that some ranks alone make is DDP305."""
    if guarded is not None and guarded.found:
        return
    for deadlock in deadlocks.found:
        order = (*deadlock.sides.minority, *deadlock.sides.majority)
        by_call: dict[str, list[int]] = {}
        for rank in order:
            issued = deadlock.waits[rank]
            by_call.setdefault(issued.name if issued.group else f"{issued.name} of the default group", []).append(rank)
        waits = ", ".join(
            f"{group_ranks(ranks)} {verb(ranks, 'waits', 'wait')} in {call}" for call, ranks in by_call.items()
        )
        tied = tie_note(tied=deadlock.sides.tied)
        died = dead_threads.of_ranks(errors, order)
        yield RULE.finding(
            f"ranks wait for each other in different groups: {waits}{tied}",
            ranks=deadlock.sides.minority,
            where=[*dead_threads.where(died), *witnesses(deadlock.waits, order)],
            details=[
                *dead_threads.sentences(died),
                *_change(deadlock),
                *_members(deadlock),
                *unplaced(deadlock.waits, order),
            ],
            remedy=dead_threads.REMEDY if died else OF_A_GROUP if deadlock.wrong_group else None,
            waits={str(rank): names(deadlock.waits, [rank]) for rank in order},
        )


def _change(deadlock: Deadlock) -> Iterator[str]:
    if deadlock.changed_order:
        ranks = deadlock.sides.minority
        yield (
            f"{group_ranks(ranks)} used these groups in another order before: find what changes the order, or leaves a call "
            f"out, on {verb(ranks, 'this rank', 'these ranks')}"
        )


def _members(deadlock: Deadlock) -> Iterator[str]:
    """`group 1 has ranks 0-2, group 2 has ranks 1-3`: names of groups are not those of the program."""
    have = [f"{name} has {group_ranks(ranks)}" for name, ranks in sorted(deadlock.members.items())]
    if have:
        yield ", ".join(have)
