"""Ranks of the launch did not join the rendezvous.

Everybody else waits for them in `init_process_group`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace

from ddpdoctor.analysis.crashes.failure import Failure, unique_ranks
from ddpdoctor.analysis.crashes.failures import Failures
from ddpdoctor.evidence import noun_of
from ddpdoctor.evidence.bounds import MOST_RANKS
from ddpdoctor.evidence.launch import RankSet
from ddpdoctor.messages.known_errors import sentence
from ddpdoctor.model import ErrorPattern, Finding, Rule, Severity, SkipCheck, group_ranks

_COUNTS = re.compile(r"world_size=(\d{1,18}), worker_count=(\d{1,18})(?!\d)")


def _fewer_came(text: str) -> bool:
    return any(int(came) < int(size) for size, came in _COUNTS.findall(text))


_STILL_WAITING = ErrorPattern(
    regex=r"Waiting in store based barrier .{0,300}world_size=(?P<size>\d{1,9}), worker_count=(?P<came>\d{1,9})\b",
    sentence="{came} of {size} ranks have come to the rendezvous and wait for the others (world_size={size}, "
    "worker_count={came})",
    applies=_fewer_came,
)
RULE = Rule(
    code="DDP205",
    name="rank-never-joined",
    summary="ranks of the launch did not join the rendezvous",
    severity=Severity.WARN,
    shown_by="fewer processes reached the rendezvous than the world size: the log of each node shows which did "
    "not start",
    remedy="check the hosts and logs of these ranks: the process was not started, died before it joined, or cannot "
    "reach MASTER_ADDR",
    errors=(
        ErrorPattern(
            regex=r"Timed out initializing process group .{0,300}world_size=(?P<size>\d{1,9}), worker_count=(?P<came>\d{1,9})\b",
            sentence="{came} of {size} ranks came to the rendezvous before its timeout (world_size={size}, worker_count={came})",
            applies=_fewer_came,
        ),
        ErrorPattern(
            regex=r"waiting for clients\. (?P<came>\d{1,9})/(?P<size>\d{1,9}) clients joined",
            sentence="{came}/{size} ranks came to the store before its timeout",
        ),
        ErrorPattern(
            regex=r"RendezvousTimeoutError",
            sentence="torchrun's agent waited for other nodes until the rendezvous timed out (RendezvousTimeoutError)",
        ),
        ErrorPattern(
            regex=r"ncclUniqueId from \[(?P<root>\d{1,18})\] .{0,300}(?:wait timeout|Socket Timeout|Timeout waiting for key)",
            sentence="{who} waited for NCCL's id from rank {root} of its group until the timeout",
        ),
        _STILL_WAITING,
    ),
)


def check(ranks: RankSet | None, failures: Failures | None) -> Iterator[Finding]:
    """One finding with the absent ranks. A warning beside an undecided report: more patience may yet see them come.

    By a log: how many came, and who did not where all that came wrote into it.
    """
    found = failures.of(RULE.code) if failures is not None else ()
    if found:
        yield _by_words(found)
    if ranks is None:
        if not found:
            raise SkipCheck(f"no {noun_of(RankSet.__name__)} in the evidence")
        return
    absent = sorted({*range(ranks.world_size)} - {arrival.rank for arrival in ranks.arrivals})
    if absent:
        came = len({arrival.rank for arrival in ranks.arrivals} & {*range(ranks.world_size)})
        yield RULE.finding(
            f"{group_ranks(absent)} of {ranks.world_size} did not join within {ranks.deadline_seconds:g} s; {came} joined",
            ranks=absent,
            came=came,
            deadline_seconds=ranks.deadline_seconds,
        )


def _by_words(found: tuple[Failure, ...]) -> Finding:
    first = max(found, key=_tells_most)
    assert first.known is not None
    same = [failure for failure in found if failure.known and failure.known.pattern is first.known.pattern]
    groups = first.known.groups
    absent = _absent(first, same)
    waits = first.known.pattern is _STILL_WAITING
    came = f"{'have' if len(absent) > 1 else 'has'} not come" if waits else "never came"
    never = f"; {group_ranks(absent)} {came}" if absent else ""
    finding = RULE.finding(
        sentence(first, same) + never,
        ranks=absent,
        where=[where for failure in same for where in failure.where("waits here")],
        severity=Severity.WARN if "root" in groups or waits else Severity.FAIL,
        shown_by_job=True,
    )
    counts = {name: int(value) for name, value in groups.items() if name in {"came", "size"}}
    return replace(finding, measured=counts)


def _tells_most(failure: Failure) -> tuple[int, int]:
    """The pattern that is declared first counts, then the line that saw the most ranks come."""
    assert failure.known is not None
    return -RULE.errors.index(failure.known.pattern), int(failure.known.groups.get("came", 0))


def _absent(first: Failure, failures: list[Failure]) -> list[int]:
    """The ranks that did not come, where as many ranks wrote that they wait as are said to have come."""
    groups = first.known.groups if first.known is not None else {}
    if not {"came", "size"} <= groups.keys():
        return []
    waiting = {*unique_ranks(failures)}
    for failure in failures:
        waiting |= {int(rank) for rank in re.findall(r"store based barrier on rank: (\d{1,9})", failure.text)}
    size = int(groups["size"])
    if len(waiting) != int(groups["came"]) or not max(waiting, default=0) < size <= MOST_RANKS:
        return []
    return sorted({*range(size)} - waiting)
