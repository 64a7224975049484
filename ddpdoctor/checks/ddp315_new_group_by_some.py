"""Some ranks called `new_group` and the others did not, although every rank must, its members or not."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from ddpdoctor.analysis.collectives.groups.desync import Cause
from ddpdoctor.analysis.collectives.places.conditions_above import rank_test
from ddpdoctor.analysis.collectives.recorders.timeline import Timeline
from ddpdoctor.analysis.collectives.stacks.stack_desync import HOW_IT_IS_KNOWN
from ddpdoctor.analysis.collectives.stacks.two_sides import StackDesync
from ddpdoctor.analysis.majority import vote
from ddpdoctor.evidence import PerRank
from ddpdoctor.evidence.ranks import CollectiveCalls, NewGroup
from ddpdoctor.evidence.source import SourceCode
from ddpdoctor.messages.collectives import condition_note, witnesses
from ddpdoctor.messages.conditions import condition_text
from ddpdoctor.messages.majority import tie_note
from ddpdoctor.model import Finding, Rule, Severity, SkipCheck, Where, group_ranks, measured_by_rank, verb

RULE = Rule(
    code="DDP315",
    name="new-group-by-some",
    summary="some ranks called new_group and others did not",
    severity=Severity.FAIL,
    shown_by="some ranks wait in new_group and others are past it: `ddpdoctor hang`",
    remedy="call new_group on every rank of the job, in the same order, the ranks outside of the new group included",
    explains=("DDP301", "DDP305", "DDP306", "DDP307", "DDP314", "DDP318", "DDP408"),
)


def check(
    calls: PerRank[CollectiveCalls] | None,
    timeline: Timeline | None,
    stack_desync: StackDesync | None,
    code: SourceCode | None = None,
) -> Iterator[Finding]:
    """The ranks that wait in new_group and those that never called it, the minority at fault.

    Of two equal sides those that call it, where they do so under a test of the rank.
    """
    if calls is None and stack_desync is None:
        raise SkipCheck(
            "no record of collective calls, and the stacks do not show a rank in new_group while others wait elsewhere"
        )
    if calls is not None:
        yield from _by_calls(calls, timeline, code)
    elif stack_desync is not None and stack_desync.makes_a_group and stack_desync.cause is not Cause.LEFT:
        yield RULE.finding(
            f"{stack_desync.sentence()}{tie_note(tied=stack_desync.tied)}",
            ranks=stack_desync.culprits,
            where=stack_desync.where(condition_note(stack_desync.comparison)),
            details=(HOW_IT_IS_KNOWN,),
        )


def _by_calls(calls: PerRank[CollectiveCalls], timeline: Timeline | None, code: SourceCode | None) -> Iterator[Finding]:
    if all(group.returned for entry in calls for group in entry.value.new_groups):
        return
    counts = {entry.rank: len(entry.value.new_groups) for entry in calls}
    if len(set(counts.values())) == 1:
        return
    most = max(counts.values())
    inside = {entry.rank: entry.value.new_groups[-1] for entry in calls if counts[entry.rank] == most}
    outside = sorted(counts.keys() - inside.keys())
    sides = vote({rank: rank in inside for rank in counts})
    tests = {rank: test for rank, group in inside.items() if (test := _test(group, code)) is not None}
    alone = sides.tied and len(tests) == len(inside)
    minority = tuple(sorted(inside)) if alone else sides.minority
    members = group_ranks(next(iter(inside.values())).ranks)
    did = f"{group_ranks([*inside])} {verb([*inside], 'waits', 'wait')} in new_group number {most} (of {members})"
    yield RULE.finding(
        f"{did} that {group_ranks(outside)} never {verb(outside, 'calls', 'call')}"
        + tie_note(tied=sides.tied and not alone),
        ranks=minority,
        where=_where(inside, outside, minority, timeline, tests),
        new_groups=measured_by_rank(counts),
    )


def _test(group: NewGroup, code: SourceCode | None) -> str | None:
    """The test of the rank above this call, in words."""
    found = rank_test((group.place,), code) if group.place is not None else None
    return condition_text(found[0], found[1].file) if found is not None else None


def _where(
    inside: dict[int, NewGroup],
    outside: Sequence[int],
    minority: Sequence[int],
    timeline: Timeline | None,
    tests: Mapping[int, str],
) -> list[Where]:
    callers = [
        Where.at(group.place, rank=rank, note=f"new_group, {tests[rank]}" if rank in tests else "new_group")
        for rank, group in inside.items()
        if group.place is not None
    ]
    waits = {
        rank: issued for rank in outside if timeline is not None and (issued := timeline.waiting(rank)) is not None
    }
    others = witnesses(waits, outside)
    return [*callers, *others] if not minority or minority[0] in inside else [*others, *callers]
