"""Several processes claim the same rank."""

from collections.abc import Iterator

from ddpdoctor.analysis.hangs.rank_activity import Activities
from ddpdoctor.analysis.hangs.stack_patterns import Activity
from ddpdoctor.evidence import PerRank
from ddpdoctor.evidence.bounds import MOST_RANKS
from ddpdoctor.evidence.job_log import JobLog
from ddpdoctor.evidence.launch import Joining, RankSet
from ddpdoctor.grouping import grouped
from ddpdoctor.model import ErrorPattern, Finding, Rule, Severity, SkipCheck, Where, group_ranks

RULE = Rule(
    code="DDP206",
    name="duplicate-rank",
    summary="several processes claim the same rank",
    severity=Severity.FAIL,
    shown_by="two processes print the same RANK: compare node ranks and `echo $RANK $LOCAL_RANK` of all tasks",
    remedy="give each process its own RANK; under torchrun each node its own --node-rank, and do not set RANK yourself",
    explains=(
        "DDP205",
        "DDP307",
        "DDP314",
        "DDP401",
        "DDP408",
        "DDP418",
    ),
    errors=(
        ErrorPattern(
            regex=r"rank (?P<rank>\d{1,18}) of (?P<size>\d{1,18}) ranks has already checked in",
            sentence="two processes claim rank {rank} of {size}: NCCL saw it check in twice",
        ),
    ),
)


OF_THE_PROGRAM = (
    "give each process its own rank: the `rank=` of `init_process_group`, or the RANK that the program sets, is the same in "
    "these processes"
)


def check(
    ranks: RankSet | None,
    log: JobLog | None,
    joining: PerRank[Joining] | None = None,
    activities: Activities | None = None,
) -> Iterator[Finding]:
    """One finding for each rank that several processes claim, with the hosts on which they run; of a log, one for all.

    Of a job whose ranks wait in `init_process_group`: the ranks as which several living processes join.
    """
    if ranks is None and log is None and (joining is None or activities is None):
        raise SkipCheck("no other rank reported its environment, and no job log")
    if ranks is not None:
        yield from _claimed_twice(ranks)
    elif log is not None:
        yield from _announced_twice(log)
    if joining is not None and activities is not None:
        yield from _joins_twice(joining, activities)


def _joins_twice(joining: PerRank[Joining], activities: Activities) -> Iterator[Finding]:
    """Ranks as which several processes join, where one of them waits for a rank that none is."""
    waiting = {activity.rank: activity.place for activity in activities.of(Activity.RENDEZVOUS)}
    twice = {entry.rank: len(entry.value.rivals) + 1 for entry in joining if entry.value.rivals}
    size = max((entry.value.world_size or 0 for entry in joining), default=0)
    never = sorted({*range(size)} - {entry.rank for entry in joining}) if size <= MOST_RANKS else []
    if twice and waiting and never:
        yield RULE.finding(
            f"several processes join as {group_ranks([*twice])} of {size}, and none as {group_ranks(never)}",
            ranks=[*twice],
            where=[
                Where.at(place, rank=rank, note="waiting for the other ranks")
                for rank, place in waiting.items()
                if place is not None and rank in twice
            ],
            remedy=OF_THE_PROGRAM,
            processes=max(twice.values()),
        )


def _announced_twice(log: JobLog) -> Iterator[Finding]:
    """Ranks that announced themselves twice at one start, while others never did."""
    twice = sorted({rank for rank in log.announced if log.announced.count(rank) > 1})
    size = log.world_size or 0
    never = sorted({*range(size)} - {*log.announced}) if size <= MOST_RANKS else []
    if twice and never:
        yield RULE.finding(
            f"several processes claim {group_ranks(twice)} of {log.world_size}, and none claims {group_ranks(never)}",
            ranks=twice,
            processes=log.announced.count(twice[0]),
            shown_by_job=True,
        )


def _claimed_twice(ranks: RankSet) -> Iterator[Finding]:
    claims = grouped((arrival.rank, arrival.host) for arrival in ranks.arrivals)
    for rank, hosts in sorted(claims.items()):
        if len(hosts) > 1:
            yield RULE.finding(
                f"{len(hosts)} processes claim rank {rank}, on {' and '.join(dict.fromkeys(hosts))}",
                ranks=(rank,),
                hosts=hosts,
                processes=len(hosts),
            )
