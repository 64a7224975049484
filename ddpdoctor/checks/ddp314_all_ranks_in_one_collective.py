"""Every rank of a group is in the same collective, they agree on it, and it does not end."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ddpdoctor.analysis.collectives.recorders.timeline import IssuedCall, Timeline
from ddpdoctor.analysis.crashes.own_ends import ended_well
from ddpdoctor.analysis.hangs.operations import ROOTED, Operation
from ddpdoctor.analysis.hangs.standing_operations import in_all_transfers
from ddpdoctor.analysis.hangs.wait_for_graph import Reason, WaitForGraph
from ddpdoctor.evidence import PerRank
from ddpdoctor.evidence.ranks import JobSize, RankExit
from ddpdoctor.messages.collectives import duration, unplaced, witnesses
from ddpdoctor.model import Finding, Rule, Severity, SkipCheck, group_ranks, verb

RULE = Rule(
    code="DDP314",
    name="all-ranks-in-one-collective",
    summary="nobody is missing and nothing moves: the network or the devices are stuck",
    severity=Severity.FAIL,
    shown_by="`ddpdoctor hang` shows every rank in the same collective; NCCL_P2P_DISABLE=1 or another interface helps",
    remedy="look below the job: `ddpdoctor net` measures the links between these hosts; then the GPUs (`nvidia-smi`, Xid in "
    "the kernel log)",
    explains=("DDP408",),
)
OF_A_ROOT = (
    "print `src` or `dst` before this call: it must be the same global rank on every rank (DDP304; recorders do not show it, "
    "`ddpdoctor watch` does). If it is, look below the job: `ddpdoctor net`, `nvidia-smi`, Xid in the kernel log"
)
SHOWN_OPERATIONS = 3
BEFORE_ALL = (
    "the dumps do not tell how many ranks the job has: if there is one above rank {last}, see first why it left no dump"
)
OF_OTHER_TURNS = (
    "ring buffers have lost how many sends came before: a rank may wait for another one than its partner is in"
)
OF_THE_QUEUED = (
    "look at the GPU of each rank named: work that it was given before does not end (`nvidia-smi`, Xid in the kernel log, a "
    "kernel of your own that waits)"
)
OF_THE_COMMON = (
    "look at the GPU and the links of each rank named: all transfers that do not end begin or end there (`nvidia-smi`, Xid in "
    "the kernel log, `ddpdoctor net`)"
)


def check(
    timeline: Timeline, graph: WaitForGraph | None, size: JobSize | None, exits: PerRank[RankExit] | None
) -> Iterator[Finding]:
    """The operations that all members have enqueued and that all others wait for, where they are older than healthy ones get.

    gloo's recorders do not tell the members of a group, so ranks that nobody could look at may be the ones it waits for. A
    member that ended well is not in a call: its recorder had not noted the end of the last one yet.
    """
    if size is not None and len(timeline.ranks) < size.ranks:
        raise SkipCheck(f"only {group_ranks(timeline.ranks)} of {size.ranks} recorded collectives")
    if graph is None or graph.reason is not Reason.STANDING:
        return
    finished = ended_well(exits)
    operations = [one for one in graph.operations if finished.isdisjoint(one.waiting) and not one.is_young]
    if not operations:
        return
    waiting: dict[int, IssuedCall] = {}
    for one in reversed(operations):
        waiting.update(one.waiting)
    ages = [seconds for one in operations for seconds in one.ages]
    ranks, shown_by, remedy = _culprits(operations)
    first = operations[0]
    without_end = timeline.without_end and any(one.group is not None for one in operations)
    described = [_describe(one, without_end=without_end) for one in operations[:SHOWN_OPERATIONS]]
    if len(operations) > SHOWN_OPERATIONS:
        described.append(f"it is the same with {len(operations) - SHOWN_OPERATIONS} more")
    yield RULE.finding(
        f"{' and '.join(described)}, {'nobody that left a dump' if without_end else 'nobody'} is missing, and "
        f"{'it does' if len(operations) == 1 else 'they do'} not end{shown_by}",
        ranks=ranks,
        where=witnesses(waiting, sorted(waiting)),
        details=[
            *([BEFORE_ALL.format(last=timeline.ranks[-1])] if without_end else []),
            *(() if ranks else _not_begun(operations)),
            *([OF_OTHER_TURNS] if any(one.assumed for one in operations) else []),
            *graph.details(),
            *unplaced(waiting, sorted(waiting)),
        ],
        seq=first.seq,
        seconds=min(ages, default=None),
        remedy=remedy,
        backend=first.group.backend if first.group is not None else None,
        members=sorted({rank for one in operations for rank in one.members}),
    )


def _culprits(operations: Sequence[Operation]) -> tuple[list[int], str, str | None]:
    """The ranks that keep all of these from ending, how that shows, and what to do; nobody where one has none of them."""
    queued = sorted({rank for one in operations for rank in one.not_begun})
    if queued and not any({*queued}.isdisjoint(one.members) for one in operations):
        if len(operations) == 1:
            note = f"; the device of every other rank has begun it, that of {group_ranks(queued)} has not"
        else:
            note = f"; {_devices(queued)} not begun, those of all other ranks have"
        return queued, note, OF_THE_QUEUED
    common = in_all_transfers(operations)
    if common:
        return common, f"; {group_ranks(common)} {verb(common, 'takes', 'take')} part in each of these", OF_THE_COMMON
    return [], "", OF_A_ROOT if any(map(_has_root, operations)) else None


def _not_begun(operations: Sequence[Operation]) -> Iterator[str]:
    for operation in operations[:SHOWN_OPERATIONS]:
        queued = operation.not_begun
        if queued:
            yield f"{_devices(queued)} not begun {operation.name}, those of its other ranks have"


def _devices(ranks: Sequence[int]) -> str:
    return f"the {verb(ranks, 'device', 'devices')} of {group_ranks(ranks)} {verb(ranks, 'has', 'have')}"


def _describe(operation: Operation, *, without_end: bool) -> str:
    waits = f" for {duration(min(operation.ages))}" if operation.ages else ""
    through = [rank for rank in operation.members if rank not in operation.waiting]
    if through:
        ended = f"{group_ranks(through)} {verb(through, 'is', 'are')} through with it"
        return f"{group_ranks([*operation.waiting])} are in {operation.name}{waits}, {ended}"
    if without_end and operation.group is not None:
        return f"{group_ranks(operation.members)} {verb(operation.members, 'is', 'are')} in {operation.name}{waits}"
    return f"all {len(operation.members)} ranks ({group_ranks(operation.members)[6:]}) are in {operation.name}{waits}"


def _has_root(operation: Operation) -> bool:
    return any(call.op in ROOTED for call in operation.waiting.values())
