"""Every rank of a group is in the same collective, they agree on it, and it does not end."""

from __future__ import annotations

from collections.abc import Iterator

from ddpdoctor.analysis.collectives.timeline import Timeline
from ddpdoctor.analysis.hangs.outstanding import MOVING_SECONDS, ROOTED, Operation
from ddpdoctor.analysis.hangs.wait_for_graph import Reason, WaitForGraph
from ddpdoctor.evidence import PerRank
from ddpdoctor.evidence.ranks import JobSize, RankExit
from ddpdoctor.messages.collectives import duration, unplaced, witnesses
from ddpdoctor.model import Finding, Rule, Severity, SkipCheck, group_ranks

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
OF_THE_QUEUED = (
    "look at the GPU of this rank: work that it was given before does not end (`nvidia-smi`, Xid in the kernel log, a kernel of "
    "your own that waits)"
)


def check(
    timeline: Timeline, graph: WaitForGraph | None, size: JobSize | None, exits: PerRank[RankExit] | None
) -> Iterator[Finding]:
    """The operation that all its members have enqueued and that all others wait for, where it is older than a healthy one gets.

    gloo's recorders do not tell the members of a group, so ranks that nobody could look at may be the ones it waits for. A
    member that ended well is not in a call: its recorder had not noted the end of the last one yet.
    """
    if size is not None and len(timeline.ranks) < size.ranks:
        raise SkipCheck(f"only {group_ranks(timeline.ranks)} of {size.ranks} could be looked at")
    if graph is None or graph.reason is not Reason.STANDING:
        return
    (operation,) = graph.operations
    if any(entry.value.exit_code == 0 and entry.rank in operation.waiting for entry in exits or ()):
        return
    ages = [call.seconds for call in operation.waiting.values() if call.seconds is not None]
    if ages and min(ages) < MOVING_SECONDS:
        return
    waits = f" for {duration(min(ages))}" if ages else ""
    queued = _queued(operation)
    begun = f"; the device of every other rank has begun it, that of {group_ranks(queued)} has not" if queued else ""
    yield RULE.finding(
        f"all {len(operation.members)} ranks ({group_ranks(operation.members)[6:]}) are in {operation.name}{waits}, nobody is "
        f"missing, and it does not end{begun}",
        ranks=queued,
        where=witnesses(operation.waiting, operation.members),
        details=[*graph.details(), *unplaced(operation.waiting, operation.members)],
        seq=operation.seq,
        seconds=min(ages, default=None),
        remedy=OF_THE_QUEUED if queued else OF_A_ROOT if _has_root(operation) else None,
        backend=operation.group.backend if operation.group is not None else None,
        members=[*operation.members],
    )


def _has_root(operation: Operation) -> bool:
    return any(call.op in ROOTED for call in operation.waiting.values())


def _queued(operation: Operation) -> list[int]:
    """The few ranks whose device has not begun the call; nobody where the recorders do not look (TORCH_NCCL_ENABLE_TIMING)."""
    queued = [rank for rank, issued in sorted(operation.waiting.items()) if not issued.started]
    return queued if 2 * len(queued) < len(operation.waiting) else []
