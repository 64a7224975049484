"""How the ranks of an observed job ended, from what their parents collected and what they wrote themselves."""

from __future__ import annotations

import re
import signal
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from ddpdoctor.agent.inside.schema.rank_end import ExitCode
from ddpdoctor.analysis.crashes.end_request import CLOCK_SECONDS
from ddpdoctor.analysis.crashes.error_patterns import secondary_error
from ddpdoctor.evidence import Evidence
from ddpdoctor.evidence.job_log import JobLog
from ddpdoctor.evidence.ranks import RankError, RankExit
from ddpdoctor.host.processes import is_alive
from ddpdoctor.launch.observed_job import Received
from ddpdoctor.logs.faulthandler_stacks import frames_of_crash
from ddpdoctor.ranks.agent_files import FATAL, RankProcess, ranks_of_attempts

CRASHES = (-signal.SIGSEGV, -signal.SIGABRT, -signal.SIGBUS, -signal.SIGFPE, -signal.SIGILL)
OF_TORCHRUN = re.compile(r"torch\.distributed\.elastic\.|[EWI]\d{4} [\d:.]+ \d+ torch/distributed/")  # no rank wrote it
KILLED = (-signal.SIGKILL, 128 + signal.SIGKILL)  # of a launcher itself, or of one below a shell
BY_A_LAUNCHER = (-signal.SIGTERM, -signal.SIGKILL)
ENDS_A_JOB = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT)
GRACE_SECONDS = 600.0  # to save a checkpoint; Slurm gives 30 s unless told otherwise, Kubernetes too


@dataclass(frozen=True, slots=True)
class _End:
    """One rank's end: its code, and when its parent collected it."""

    agent: RankProcess
    code: int | None
    collected_at: float | None
    error: tuple[RankError, float] | None


def exits_of(
    ranks: Sequence[RankProcess],
    ended: Mapping[int, ExitCode],
    *,
    main: tuple[int, int | None],
    killed_at: float | None,
    asked: Received | None = None,
) -> dict[int, RankExit]:
    """By rank, the end of each rank that has ended. `main` is the command's own process and exit code.

    `killed_at` is when we ended the job, if we did: a rank that its parent had collected before was not ended by us, and what a
    rank raises later (its subprocess has ended, its peers are gone) is no failure of its own.
    `asked` is the signal by which somebody had the whole job end: what its ranks then die of, and what they say of it, is
    nobody's failure.
    """
    job = _JobEnd(first_failure=_first_failure(ranks, ended), killed_at=killed_at, asked=asked)
    ends = [end for agent in ranks if (end := _end(agent, ended, main)) is not None]
    return {end.agent.rank: job.exit_of(end, order) for order, end in enumerate(sorted(ends, key=job.moment_of))}


@dataclass(frozen=True, slots=True, kw_only=True)
class _JobEnd:
    """What ended the job, by which the ends of its ranks are judged."""

    first_failure: float | None
    """When the first process was collected that failed by itself; None where none did."""
    killed_at: float | None
    """When we ended the job, if we did."""
    asked: Received | None
    """The signal by which somebody had the whole job end."""

    def exit_of(self, end: _End, order: int) -> RankExit:
        """The end of one rank, the `order`th of all."""
        signalled = end.code is not None and end.code < 0
        return RankExit(
            exit_code=end.code,
            error=end.error[0] if end.error is not None and not self._raised_after_our_end(end) else None,
            left_by=end.agent.left_by() if end.code == 0 else (),
            native_stack=end.agent.crash() if signalled else (),
            ended_by_launcher=self._is_by_launcher(end),
            ended_in=end.agent.ended_at() if self._is_by_launcher(end) else (),
            ended_at=self.moment_of(end),
            order=order,
            pid=end.agent.pid,
            debug=end.agent.debug(),
        )

    def moment_of(self, end: _End) -> float:
        """When the rank ended, in seconds since the epoch."""
        last_call = end.agent.header.last_ns / 1e9
        if end.error is not None:
            return end.error[1]
        if end.code is not None and end.code < 0 and not self._is_by_launcher(end):
            return last_call  # the parent noticed it later; its peers may have complained before
        return end.collected_at or end.agent.left_at() or last_call

    def _is_by_launcher(self, end: _End) -> bool:
        if self._raised_after_our_end(end) or (self.asked is not None and _as_asked(end, self.asked)):
            return True
        if end.code == 0:  # as a handler of the signal may leave
            ended_at = end.collected_at or end.agent.left_at()
            return self.killed_at is not None and ended_at is not None and ended_at >= self.killed_at
        by_us = self.killed_at is not None and (end.collected_at is None or end.collected_at >= self.killed_at)
        after = (
            self.first_failure is not None and end.collected_at is not None and end.collected_at > self.first_failure
        )
        return end.code in BY_A_LAUNCHER and (by_us or after)

    def _raised_after_our_end(self, end: _End) -> bool:
        return self.killed_at is not None and end.error is not None and end.error[1] >= self.killed_at


def asked_to_end(received: Sequence[Received], codes: Collection[int | None], ended_at: float) -> Received | None:
    """The first signal that reached us and by which the processes with these exit codes ended; None where they did by themselves.

    A job that went on for longer than any grace (under nohup after a SIGHUP, say) has not ended by it.
    """
    late = (one for one in received if ended_at - one.at < GRACE_SECONDS)
    return next((one for one in late if one.signal in ENDS_A_JOB or -one.signal in codes), None)


def _as_asked(end: _End, asked: Received) -> bool:
    """Whether this rank ended, without an error of its own, because the whole job was to end."""
    ended_after = end.collected_at is None or end.collected_at > asked.at - CLOCK_SECONDS
    return ended_after and end.error is None and end.code not in CRASHES


def _first_failure(ranks: Sequence[RankProcess], ended: Mapping[int, ExitCode]) -> float | None:
    """When a launcher of these ranks first collected a failure: of one of them, or of a rank that has no agent in it.

    A process without an agent is of an earlier attempt where it was collected before the last process of such an attempt.
    """
    current = {agent.pid for agent in ranks}
    others = {int(ring.stem) for agent in ranks[:1] for ring in agent.directory.glob("*.ring")} - current
    restart = max((agent.header.restart for agent in ranks), default=0)
    attempts = ranks_of_attempts(ranks[0].directory) if restart else {}
    before = {agent.pid for number, attempt in attempts.items() if number < restart for agent in attempt}
    began = max((ended[pid].at for pid in before & ended.keys()), default=0.0)
    failed = (one for one in failures_in_launch(ranks, ended) if one.pid not in others and one.at > began)
    return min((one.at for one in failed), default=None)


def failures_in_launch(ranks: Sequence[RankProcess], ended: Mapping[int, ExitCode]) -> Iterator[ExitCode]:
    """The failures that a launcher of these ranks has collected, of earlier attempts too."""
    launchers = {ended[agent.pid].parent for agent in ranks if agent.pid in ended}
    return (one for one in ended.values() if one.code and one.parent in launchers)


def _end(agent: RankProcess, ended: Mapping[int, ExitCode], main: tuple[int, int | None]) -> _End | None:
    """The end of one rank, or None where it is still at work."""
    error = agent.error()
    if agent.pid in ended:
        return _End(agent, ended[agent.pid].code, ended[agent.pid].at, error)
    if agent.pid == main[0] and main[1] is not None:
        return _End(agent, main[1], None, error)
    if not is_alive(agent.pid):  # nobody told us its code
        crash, with_launcher = agent.crashed_by(), main[1] in KILLED and error is None and agent.left_at() is None
        if crash is not None:
            return _End(agent, -crash, None, error)
        return _End(agent, -signal.SIGKILL if with_launcher else 1 if error is not None else None, None, error)
    return _End(agent, None, None, error) if error is not None else None  # it has failed but does not exit


def with_users_faulthandler(exits: Mapping[int, RankExit], stderr: str) -> dict[int, RankExit]:
    """The ends with the stack of the one that crashed, where the job has a faulthandler of its own that writes to stderr.

    It does not say whose it is: with several crashes, or several reports, nobody's is taken.
    """
    crashed = [rank for rank, ending in exits.items() if ending.exit_code in CRASHES and not ending.native_stack]
    reports = stderr.split(FATAL)[1:]
    if len(crashed) != 1 or len(reports) != 1:
        return dict(exits)
    return {**exits, crashed[0]: replace(exits[crashed[0]], native_stack=frames_of_crash(reports[0]))}


def with_log(
    exits: Mapping[int, RankExit], log: Evidence, joined: Collection[int]
) -> tuple[dict[int, RankExit], JobLog | None]:
    """The ends with what the job's log adds to them, and what in the log belongs to no rank and was not known yet.

    Of ranks that have not `joined` no agent tells: the log alone does.
    """
    from_log = {facts.rank: fact for facts in log.ranks for fact in facts.facts if isinstance(fact, RankExit)}
    both = {
        rank: replace(
            known,
            tail=from_log[rank].tail,
            exit_code=from_log[rank].exit_code if known.exit_code is None else known.exit_code,
            error=known.error or from_log[rank].error,
            ended_by_launcher=known.ended_by_launcher or from_log[rank].ended_by_launcher,
        )
        if rank in from_log
        else known
        for rank, known in exits.items()
    }
    both |= {rank: ending for rank, ending in from_log.items() if rank not in joined and rank not in both}
    whole = log.one(JobLog)
    if whole is None:
        return both, None
    for rank, ending in both.items():  # C++ code that aborts does not say whose it is
        if ending.exit_code == -signal.SIGABRT and not any(map(secondary_error, ending.tail)):
            both[rank] = replace(
                ending, tail=(*ending.tail, *(line for line in whole.said if not OF_TORCHRUN.match(line)))
            )
    known_words = {_type_and_message(exit_.error) for exit_ in both.values() if exit_.error is not None}
    return both, replace(
        whole, errors=tuple(error for error in whole.errors if _type_and_message(error) not in known_words)
    )


def without_handled_errors(exits: Mapping[int, RankExit], log: JobLog) -> JobLog:
    """The log of a job whose launcher ended with exit code 0 and collected no failure, without the errors that ended no rank.

    Where every rank ended with exit code 0, too, these are all of them: the program handled and printed them. Where no rank is
    known, the log may show one that ended before it joined.
    """
    if not exits or any(ending.exit_code != 0 for ending in exits.values()):
        return log
    return replace(log, errors=(), cut=(), failure_lines=(), handled=(*log.handled, *log.errors))


def _type_and_message(error: RankError) -> tuple[str, str]:
    return error.type, error.message.strip()[:200]
