"""Every rank of a group is in the same collective, they agree on it, and it does not end."""

from __future__ import annotations

from collections.abc import Iterator

from ddpdoctor.analysis.deadlock import Deadlocks
from ddpdoctor.analysis.timeline import GroupTimeline, Timeline
from ddpdoctor.analysis.wording import duration, unplaced, witnesses
from ddpdoctor.evidence.ranks import JobSize
from ddpdoctor.model import Finding, Rule, Severity, SkipCheck, group_ranks

RULE = Rule(
    code="DDP314",
    name="all-ranks-in-one-collective",
    summary="nobody is missing and nothing moves: the network or the devices are stuck",
    severity=Severity.FAIL,
    remedy="look below the job: `ddpdoctor net` measures the links between these hosts; then the GPUs (`nvidia-smi`, Xid in "
    "the kernel log). If the call has a root (broadcast, reduce), see that src or dst is the same on every rank",
    explains=("DDP408",),
)
OF_THE_QUEUED = (
    "look at the GPU of this rank: work that it was given before does not end (`nvidia-smi`, Xid in the kernel log, a kernel of "
    "your own that waits)"
)
MOVING_SECONDS = 2.0  # a dump of a healthy job shows calls this young: 100x a slow all_reduce of a large bucket


def check(timeline: Timeline, deadlocks: Deadlocks, size: JobSize | None) -> Iterator[Finding]:
    """The groups whose members are all in one call that is older than a healthy one gets.

    gloo's recorders do not tell the members of a group, so ranks that nobody could look at may be the ones it waits for.
    """
    if deadlocks.found:
        return
    if size is not None and len(timeline.ranks) < size.ranks:
        raise SkipCheck(f"only {group_ranks(timeline.ranks)} of {size.ranks} could be looked at")
    for group in timeline.groups:
        age = _age(group)
        if (
            age is None
            or not group.lane.told
            or {*group.open} != {*group.members}
            or len(group.members) < 2
            or group.clashes
        ):
            continue
        if len({made.seq for made in group.open.values()}) > 1:
            continue
        name = group.open[group.members[0]].name
        waits = f" for {duration(age)}" if age else ""
        queued = _queued(group)
        begun = (
            f"; the device of every other rank has begun it, that of {group_ranks(queued)} has not" if queued else ""
        )
        yield RULE.finding(
            f"all {len(group.members)} ranks ({group_ranks(group.members)[6:]}) are in {name}{waits}, nobody is missing, "
            f"and it does not end{begun}",
            ranks=queued,
            where=witnesses(group.open, group.members),
            details=unplaced(group.open, group.members),
            seq=group.awaited,
            seconds=age or None,
            remedy=OF_THE_QUEUED if queued else None,
            backend=group.backend,
        )


def _queued(group: GroupTimeline) -> list[int]:
    """The few ranks whose device has not begun the call; nobody where the recorders do not look (TORCH_NCCL_ENABLE_TIMING)."""
    queued = [rank for rank, made in sorted(group.open.items()) if not made.started]
    return queued if 2 * len(queued) < len(group.open) else []


def _age(group: GroupTimeline) -> float | None:
    """The age of the youngest rank's open call, 0 where no dump tells; None where the job may just be moving."""
    ages = [made.seconds for made in group.open.values() if made.seconds is not None]
    if not ages:
        return 0.0
    return min(ages) if min(ages) >= MOVING_SECONDS else None
