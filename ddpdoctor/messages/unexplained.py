"""What a report says where no rule explains a failure or a stall: which evidence is missing."""

from __future__ import annotations

import re
import signal
from collections.abc import Iterator

from ddpdoctor.analysis.crashes.error_patterns import OF_A_PEER, SecondaryError
from ddpdoctor.analysis.crashes.failure import who
from ddpdoctor.analysis.crashes.failures import Failures
from ddpdoctor.analysis.hangs.rank_activity import Activities
from ddpdoctor.analysis.hangs.wait_for_graph import Reason, WaitForGraph, is_old
from ddpdoctor.evidence import Evidence, noun_of
from ddpdoctor.evidence.job_log import JobLog
from ddpdoctor.evidence.process import Stall
from ddpdoctor.evidence.ranks import JobSize
from ddpdoctor.messages.activities import lines
from ddpdoctor.messages.collectives import duration
from ddpdoctor.model import absent_ranks, group_ranges, group_ranks, verb

SHOWN_CHARACTERS = 200
_PEER = re.compile(r"errors while waiting for send/recv from rank (\d{1,9})\b")  # of gloo's monitored barrier


def unexplained_failure(failures: Failures, *, explained: bool) -> Iterator[str]:
    """`the log shows a failure that no rule explains; its first line, of rank 3 at 09:31:44 (line 120): ...`.

    Of a job that failed, by its log, where nothing that is a finding explains it.
    """
    first = failures.first_line
    if first is None:
        return
    at = f" at {first.clock}" if first.clock else ""
    several = failures.log is not None and len(failures.log.files) > 1
    number = f" (line {first.number}{f' of {first.file}' if several and first.file else ''})" if first.number else ""
    who_ = f", of rank {first.rank}" if first.rank is not None else ""
    why = (
        "the cause of this failure is not in the log" if explained else "the log shows a failure that no rule explains"
    )
    ended = failures.log.ended_by if failures.log is not None else None
    own = [
        failure
        for failure in failures.all
        if failure.secondary_error is not SecondaryError.ENDED and not failure.exit.ended_by_launcher
    ]
    if ended is not None and not explained and not own:
        yield (
            f"the job was ended from outside{_by(failures.log)}: {ended[:SHOWN_CHARACTERS]}; "
            "the log does not show whether it hung before"
        )
        return
    yield f"{why}; its first line{who_}{at}{number}: {first.text[:SHOWN_CHARACTERS]}"


def _by(log: JobLog | None) -> str:
    """` by SIGINT (Ctrl-C)`, where the log shows the signal that the launcher received."""
    if log is None or log.signal is None or log.signal not in {*signal.Signals}:
        return ""
    name = signal.Signals(log.signal).name
    return f" by {name} (Ctrl-C)" if log.signal == signal.SIGINT else f" by {name}"


def unexplained_stall(evidence: Evidence, activities: Activities | None) -> Iterator[str]:
    """Say that no rule explains the stall, and which evidence of which rank is missing.

    `no progress for 12 s; the evidence does not explain it. Missing: stacks of rank 2 (permission denied)`.
    """
    stall = evidence.one(Stall)
    if stall is None or stall.seconds is None:
        return
    missing = [
        f"{noun_of(each.kind)} of rank {each.rank} ({each.reason})"
        for each in evidence.missing
        if each.rank is not None
    ]
    listed = f". Missing: {', '.join(missing)}" if missing else ""
    yield f"no progress for {stall.seconds:.0f} s; the evidence does not explain it{listed}"
    if activities is not None:
        yield from lines(activities)


def calls_not_kept(graph: WaitForGraph | None) -> Iterator[str]:
    """Say that the flight recorders kept fewer calls than were outstanding."""
    if graph is not None and graph.reason is Reason.NOT_KEPT:
        yield (
            f"the flight recorders of {group_ranks(graph.ranks)} have lost calls that these ranks wait in: their ring buffers "
            "hold fewer calls than are under way; start the job with TORCH_FR_BUFFER_SIZE=20000"
        )


def motion(graph: WaitForGraph | None) -> Iterator[str]:
    """Say that the job may not have hung when its dumps were made, and what would decide it."""
    if graph is not None and graph.reason is Reason.MOVED:
        yield (
            f"the job may have been on its way when its dumps were made: {graph.motion}, and the files do not tell when that "
            "was. A second dump some seconds later decides it, with other numbers where the job moves; so do the log in which a "
            "watchdog reports a timeout, and dumps with their times (copy them with `cp -p` or `tar`)"
        )


def unexplained_waits(graph: WaitForGraph | None) -> Iterator[str]:
    """Say that dumps show ranks that have waited too long, and not for what: no rule named a cause."""
    if graph is None or graph.reason in (Reason.NOT_KEPT, Reason.MOVED):
        return
    old = [operation for operation in graph.operations if is_old(operation)]
    if old:
        longest = max(old, key=lambda one: max(one.ages, default=0.0))
        waiting, seconds = sorted(longest.waiting), max(longest.ages, default=None)
        waited = f"waited {duration(seconds)}" if seconds is not None else verb(waiting, "waits", "wait")
        fault = f"which of {group_ranks(graph.ranks)} is" if len(graph.ranks) > 1 else "who is"
        yield (
            f"{group_ranks(waiting)} {waited} in {longest.name}, and the dumps do not show {fault} at fault; give the dumps of "
            "all ranks from a job with TORCH_FR_BUFFER_SIZE=20000, or a case of `ddpdoctor watch --case FILE -- COMMAND`"
        )


def lost_peers(evidence: Evidence, failures: Failures | None) -> Iterator[str]:
    """Say that ranks lost a peer about which nothing is known: one of those ended first, or their node did.

    Logs alone do not tell how many ranks there are; then the message says that the peer's own error is missing.
    """
    if failures is None:
        return
    size = evidence.one(JobSize)
    unknown = absent_ranks(size.ranks, (facts.rank for facts in evidence.ranks)) if size is not None else []
    if size is not None and unknown and failures.lost:
        others = group_ranges(unknown)
        yield (
            f"{who(failures.lost)} lost a peer, and there is no evidence of {others} of {size.ranks}: add the log or the "
            f"`watch` case of {others}; if there is none, check that their node is up"
        )
    elif failures.log is not None and (
        secondary := [failure for failure in failures.all if failure.secondary_error in OF_A_PEER]
    ):
        if all(failure.secondary_error is SecondaryError.PEER_GONE for failure in secondary):
            named = sorted({int(rank) for failure in secondary for rank in _PEER.findall(failure.text)})
            peer = group_ranks(named) if named else "a peer"
            yield (
                f"{who(secondary)} lost {peer}, or the network to it, and no error of the peer is in the log: "
                "give the logs of all ranks"
            )
        else:
            yield f"{who(secondary)} failed because of a peer whose own error is not in the log: give the logs of all ranks"
