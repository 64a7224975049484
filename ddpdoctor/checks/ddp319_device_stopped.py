"""DDP319: a rank enqueued collectives that its peers have completed, and completes nothing itself any more."""

from __future__ import annotations

from collections.abc import Iterator

from ddpdoctor.analysis.collectives.recorders.timeline import Timeline
from ddpdoctor.analysis.hangs.operations import ROOTED
from ddpdoctor.analysis.hangs.stopped_ranks import UncompletedCall
from ddpdoctor.analysis.hangs.wait_for_graph import Reason, WaitForGraph
from ddpdoctor.messages.collectives import unplaced, witnesses
from ddpdoctor.model import Finding, Rule, Severity, group_ranks, verb

RULE = Rule(
    code="DDP319",
    name="device-stopped",
    summary="a rank has not completed collectives that it enqueued and that its peers have completed",
    severity=Severity.FAIL,
    shown_by="one rank has enqueued the collective and not completed it; `nvidia-smi` or `dmesg` shows its GPU in error",
    remedy="look at the GPU of this rank: Xid in `dmesg`, `nvidia-smi -q`, a kernel of your own that does not end; and at the "
    "rank's own log for CUDA and NCCL errors",
    explains=("DDP307", "DDP312", "DDP313", "DDP314", "DDP318", "DDP408"),
)
OF_A_ROOT = (
    "print `src` or `dst` before this call: a rank that gives another root waits in it alone (DDP304; recorders do not show it, "
    "`ddpdoctor watch` does). If it is the same on every rank, look at the GPU of this rank: Xid in `dmesg`, `nvidia-smi -q`"
)
SHOWN_RANKS = 3


def check(timeline: Timeline, graph: WaitForGraph | None) -> Iterator[Finding]:
    """One finding for all ranks that stopped: the oldest collective of each that its peers have and it has not."""
    if graph is None or not timeline.groups or graph.reason is not Reason.STOPPED:
        return
    ranks = sorted(one.rank for one in graph.behind)
    calls = {one.rank: one.operation for one in graph.behind}
    described = [_describe(one) for one in graph.behind[:SHOWN_RANKS]]
    if len(graph.behind) > SHOWN_RANKS:
        described.append(f"and so {len(graph.behind) - SHOWN_RANKS} more ranks")
    device = verb(ranks, "its device", "their devices")
    watchdog = verb(ranks, "its watchdog thread", "their watchdog threads")
    rooted = all(one.operation.op in ROOTED for one in graph.behind)
    other_root = f", or {verb(ranks, 'it', 'they')} gave another root than the other ranks" if rooted else ""
    yield RULE.finding(
        f"{'; '.join(described)}: {device} stopped, or {watchdog} did{other_root}",
        ranks=ranks,
        where=witnesses(calls, ranks),
        details=[*graph.details(), *unplaced(calls, ranks)],
        not_completed={str(one.rank): one.not_completed for one in graph.behind},
        completed={str(one.rank): one.completed for one in graph.behind},
        peers_completed={str(one.rank): max(one.peers_completed.values(), default=None) for one in graph.behind},
        waiting=[*graph.waiting],
        remedy=OF_A_ROOT if rooted else None,
    )


def _describe(one: UncompletedCall) -> str:
    peers = [*one.peers_completed]
    if one.transfer:
        return f"rank {one.rank} enqueued {one.transfer} and did not complete it, while {group_ranks(peers)} did"
    lost = one.not_completed < one.operation.seq
    ended = f"completed none after #{one.completed}" if lost else "did not complete it"
    return (
        f"rank {one.rank} enqueued {one.operation.name} and {ended}, while {group_ranks(peers)} completed "
        f"#{max(one.peers_completed.values(), default=0)}"
    )
