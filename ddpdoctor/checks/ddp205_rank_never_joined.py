"""Ranks of the launch did not come to the rendezvous.

Everybody else waits for them in `init_process_group`.
"""

from __future__ import annotations

from collections.abc import Iterator

from ddpdoctor.evidence.launch import RankSet
from ddpdoctor.model import Finding, Rule, Severity, group_ranks

RULE = Rule(
    code="DDP205",
    name="rank-never-joined",
    summary="ranks of the launch did not come to the rendezvous",
    severity=Severity.WARN,
    remedy="look at these ranks' hosts and logs: the process was never started, died on the way, or cannot reach MASTER_ADDR",
)


def check(ranks: RankSet) -> Iterator[Finding]:
    """One finding with the absent ranks. A warning beside an undecided report: more patience may yet see them come."""
    absent = sorted({*range(ranks.world_size)} - {arrival.rank for arrival in ranks.arrivals})
    if absent:
        came = len({arrival.rank for arrival in ranks.arrivals} & {*range(ranks.world_size)})
        yield RULE.finding(
            f"{group_ranks(absent)} of {ranks.world_size} did not come within {ranks.deadline_seconds:g} s; {came} came",
            ranks=absent,
            came=came,
            deadline_seconds=ranks.deadline_seconds,
        )
