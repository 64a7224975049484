"""A signal ended a rank, and its launcher did not send it."""

from __future__ import annotations

import signal
from collections.abc import Iterator, Mapping, Sequence

from ddpdoctor.analysis.crashes.failure import Failure, unique_ranks
from ddpdoctor.analysis.crashes.failures import Failures
from ddpdoctor.evidence import PerRank
from ddpdoctor.evidence.frames import users_frame
from ddpdoctor.evidence.ranks import CollectiveCalls, Forward, StepCount
from ddpdoctor.grouping import grouped
from ddpdoctor.model import Finding, Rule, Severity, Where, group_ranks

REMEDIES = {
    "SIGKILL": "look for a kill for lack of memory: `dmesg | grep -i oom`, and memory.events of the cgroup; if there is none, a "
    "scheduler or a person sent the signal",
    "SIGTERM": "read the log of the scheduler: it ends jobs to preempt them and at their time limit; if it did not, a person "
    "sent the signal",
    "SIGINT": "if nobody pressed Ctrl-C, look for the launcher that passed the signal on",
    "SIGSEGV": "native code has a bug: run it again with PYTHONFAULTHANDLER=1 to see the Python line, and compare the versions "
    "of torch, the driver and the extensions with those of a host where it works",
    "SIGABRT": "native code ended its process: read what this rank wrote to stderr just before, which is an assertion, a C++ "
    "exception, or NCCL's watchdog after a timeout",
    "SIGBUS": "see whether /dev/shm is full (`df /dev/shm`), and whether a memory-mapped file was removed or cut",
    "SIGFPE": "look for a division by zero in native code",
    "SIGILL": "install a build of torch or of the extension that fits this processor: it lacks an instruction",
    "SIGHUP": "start the job under a scheduler, tmux or nohup: its terminal or ssh session was closed",
    "SIGXCPU": "raise the limit on CPU time: `ulimit -t`",
}
"""By the signal, what to look at: who usually sends it, or what in the process raises it."""
OF_A_KNOWN_LINE = (
    "native code below this line read or wrote memory that is not its own: check what the line passes to it (addresses, sizes, "
    "indices); if that is right, compare the versions of torch, the driver and the extensions with those of a host where it works"
)
OF_ITSELF = (
    "the rank sent this signal to itself or its group at the line that is shown: see what led there on this rank"
)
RULE = Rule(
    code="DDP403",
    name="rank-killed-by-signal",
    summary="a signal ended a rank, and its peers lost it",
    severity=Severity.FAIL,
    shown_by="the launcher shows exitcode -N of one rank, and the kernel log shows no kill for memory",
    remedy="find out who sent the signal: the scheduler, the kernel, a person",
    explains=(
        "DDP205",
        "DDP226",
        "DDP305",
        "DDP306",
        "DDP307",
        "DDP308",
        "DDP314",
        "DDP318",
        "DDP401",
        "DDP408",
        "DDP418",
        "DDP426",
    ),
)


def check(
    failures: Failures, calls: PerRank[CollectiveCalls] | None, steps: PerRank[StepCount] | None
) -> Iterator[Finding]:
    """The ranks by the signal that ended them, with what usually sends it and the rank's last message.

    A rank that a signal ended shows no stack. Its record of its calls outlives it: its last training forward and its steps.
    """
    last = {entry.rank: entry.value.forwards[-1] for entry in calls or () if entry.value.forwards}
    made = {entry.rank: entry.value.steps for entry in steps or () if entry.value.steps}
    by_signal = grouped(
        (_name(failure), failure)
        for failure in failures.killed
        if not (failure.exit.signal == signal.SIGKILL and (failure.exit.oom_kills or failure.exit.kernel_said))
    )
    ended_by = failures.log.ended_by if failures.log is not None else None
    for name, killed in by_signal.items():
        ranks = unique_ranks(killed)
        yield RULE.finding(
            f"{_subject(killed)} died of {name}" + (f": {ended_by}" if ended_by else ""),
            ranks=ranks,
            where=[where for failure in killed if (where := _where(failure, last)) is not None],
            details=[*_last_words(killed), *_progress(ranks, made)],
            remedy=_remedy(name, killed),
            signal=name,
            exit_code=killed[0].exit.exit_code,
        )


def _remedy(name: str, killed: Sequence[Failure]) -> str | None:
    if any(users_frame(failure.exit.native_stack) for failure in killed):
        return OF_ITSELF if name == "SIGKILL" else OF_A_KNOWN_LINE if name == "SIGSEGV" else REMEDIES.get(name)
    return REMEDIES.get(name)


def _subject(killed: Sequence[Failure]) -> str:
    ranks = unique_ranks(killed)
    return group_ranks(ranks) if ranks else "a process of the job, whose rank the log does not show,"


def _name(failure: Failure) -> str:
    number = failure.exit.signal or signal.SIGINT  # of the two only SIGINT becomes an exception
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


def _where(failure: Failure, last: Mapping[int, Forward]) -> Where | None:
    place = users_frame(failure.exit.native_stack) or (failure.place if failure.exit.signal is None else None)
    if place is not None:
        itself = failure.exit.signal == signal.SIGKILL  # after which only a rank that sends it leaves a stack
        return Where.at(place, rank=failure.rank, note="sent it to itself here" if itself else "was here")
    forward = last.get(failure.rank) if failure.rank is not None else None
    if forward is None:
        return None
    return Where.at(forward.place, rank=failure.rank, note=f"forward {forward.number}, its last one")


def _progress(ranks: Sequence[int], made: Mapping[int, int]) -> list[str]:
    """`rank 2 had made 12 steps`, where the ranks recorded them."""
    return [
        f"rank {rank} had made {made[rank]} step{'' if made[rank] == 1 else 's'}" for rank in ranks[:3] if rank in made
    ]


def _last_words(killed: Sequence[Failure]) -> list[str]:
    return [f"{failure.who} last said: {failure.exit.tail[-1]}" for failure in killed[:3] if failure.exit.tail]
