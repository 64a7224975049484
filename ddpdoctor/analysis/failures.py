"""How ranks failed: each one's own error apart from the echoes of its peers' ends, the first one first."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from ddpdoctor.analysis.known_errors import Echo, echo, known_cause
from ddpdoctor.evidence import PerRank
from ddpdoctor.evidence.frames import Frame, is_users
from ddpdoctor.evidence.joblog import JobLog
from ddpdoctor.evidence.process import Stall
from ddpdoctor.evidence.ranks import RankError, RankExit
from ddpdoctor.model import SkipCheck, Where, group_ranks

SIGABRT = 6  # with it native code ends itself: where its last words are an echo, so is the end
_TORCHRUNS = re.compile(r"/bin/torchrun$|torch/distributed/(?:run|launcher/api|elastic/agent/server/\w+)\.py$")
_PASSES_ON = re.compile(r"^Caught |See inner exception for details")
_ON_THE_GPU = re.compile(r"(?:what\(\):|terminated with exception:) .*?(?P<type>(?:CUDA|HIP) error): (?P<message>.+)")
NEVER = 1 << 60  # the order of an end that nobody saw


@dataclass(frozen=True, slots=True, kw_only=True)
class Failure:
    """One rank's failure; `rank` is None where the log does not tell whose it is.

    `error` is the exception that tells the most: the rank's own, even where another one was raised after it. `code` is
    the finding that the words of the error, or of the last lines, belong to; `words` is where they stand. `echo` is set
    where nothing of it is the rank's own.
    """

    rank: int | None
    exit: RankExit
    error: RankError | None
    code: str | None
    words: str
    echo: Echo | None

    @property
    def order(self) -> int:
        """The place among all failures, the earliest first."""
        return self.exit.order if self.exit.order is not None else NEVER

    @property
    def ranks(self) -> tuple[int, ...]:
        """The rank, where it is known."""
        return () if self.rank is None else (self.rank,)

    @property
    def who(self) -> str:
        """`rank 3`; `a rank` where the log does not tell which, or `the launcher`."""
        return f"rank {self.rank}" if self.rank is not None else "the launcher" if self.by_launcher else "a rank"

    @property
    def left(self) -> bool:
        """Whether it called `sys.exit`, which may be the end of what another rank had done."""
        return self.error is not None and self.error.type == "SystemExit"

    @property
    def by_launcher(self) -> bool:
        """Whether torchrun raised it, which has no rank."""
        stack = self.error.stack if self.error is not None else ()
        return self.rank is None and any(_TORCHRUNS.search(frame.file) for frame in stack)

    @property
    def place(self) -> Frame | None:
        """The innermost line of the user's own code in the error's stack, or in that of its cause."""
        stacks = (error.stack for error in chain(self.error))
        return next((frame for stack in stacks for frame in stack if is_users(frame.file)), None)

    def where(self, note: str = "") -> tuple[Where, ...]:
        """The place as a finding shows it."""
        place = self.place
        if place is None:
            return ()
        return (Where.at(place, rank=self.rank, note=note),)


@dataclass(frozen=True, slots=True, kw_only=True)
class Failures:
    """Every failure, the first one first; and the ranks that ended with exit code 0."""

    all: tuple[Failure, ...]
    finished: tuple[int, ...]
    log: JobLog | None

    def of(self, code: str) -> tuple[Failure, ...]:
        """Those whose words belong to this code."""
        return tuple(failure for failure in self.all if failure.code == code)

    @property
    def own(self) -> tuple[Failure, ...]:
        """Exceptions of a rank's own that no known message explains."""
        return tuple(
            failure
            for failure in self.all
            if failure.error and not failure.left and not failure.code and not failure.echo
        )

    @property
    def wordless(self) -> tuple[Failure, ...]:
        """Ranks that ended with a code above 0, first of all, and of which nothing else is known than where they left."""
        told = any(
            failure.code or (failure.echo is None and failure.error and not failure.left) for failure in self.all
        )
        if told or self.killed:
            return ()
        return tuple(
            failure
            for failure in self.all
            if (failure.error is None or failure.left)
            and (failure.exit.exit_code or 0) > 0
            and not failure.exit.ended_by_launcher
        )

    @property
    def lost(self) -> tuple[Failure, ...]:
        """Ranks that say no more than that a peer was gone."""
        return tuple(failure for failure in self.all if failure.echo is Echo.PEER_GONE)

    @property
    def killed(self) -> tuple[Failure, ...]:
        """Ranks that a signal ended, other than their launcher's, and that raised nothing of their own before."""
        return (*self._ended_by_signal, *self._interrupted)

    @property
    def _interrupted(self) -> tuple[Failure, ...]:
        """Ranks that SIGINT reached as Python shows it, and not their peers or their launcher, as Ctrl-C would."""
        hit = tuple(failure for failure in self.all if failure.error and failure.error.type == "KeyboardInterrupt")
        launcher = any(failure.error and failure.error.type == "SignalException" for failure in self.all)
        if launcher or len(hit) == len(self.all):
            return ()
        return tuple(failure for failure in hit if failure.rank is not None and failure.exit.signal is None)

    @property
    def _ended_by_signal(self) -> tuple[Failure, ...]:
        return tuple(
            failure
            for failure in self.all
            if failure.exit.signal is not None
            and not failure.exit.ended_by_launcher
            and (failure.error is None or failure.echo is not None)
            and not (failure.exit.signal == SIGABRT and failure.echo is not None)
        )


def chain(error: RankError | None) -> Iterator[RankError]:
    """An exception and its causes, the one that was raised last first."""
    while error is not None:
        yield error
        error = error.cause


def spoken(error: RankError) -> str:
    """`KeyError: 'label'`: type and the first line of the message."""
    first = error.message.partition("\n")[0].strip()
    return f"{error.type}: {first}" if first else error.type


def derive(exits: PerRank[RankExit] | None, log: JobLog | None, stall: Stall | None = None) -> Failures:
    """What is known of how the job's ranks failed.

    What stands in the log of a job that hung until all of its ranks were ended has ended none of them: a thread, or an
    error that was caught.

    Raises:
        SkipCheck: nobody saw a rank end, and there is no log.
    """
    if exits is None and log is None:
        raise SkipCheck("no RankExit and no JobLog: nobody saw a rank end, and there is no log")
    found = [_failure(entry.rank, entry.value) for entry in exits or () if entry.value.exit_code != 0]
    hung = stall is not None and exits is not None and all(entry.value.ended_by_launcher for entry in exits)
    if log is not None and not hung:
        found += [_failure(None, RankExit(exit_code=None, error=error, tail=())) for error in log.errors]
        found += _told_by_lines(log, found)
    return Failures(
        all=tuple(sorted((failure for failure in found if _failed(failure)), key=lambda failure: failure.order)),
        finished=tuple(entry.rank for entry in exits or () if entry.value.exit_code == 0),
        log=log,
    )


def _failed(failure: Failure) -> bool:
    return failure.error is not None or failure.exit.exit_code is not None or failure.code is not None


def _failure(rank: int | None, ended: RankExit) -> Failure:
    errors = [*chain(ended.error)]
    errors += _of_native_code(ended.tail) if not errors else []
    own = [error for error in errors if echo(_words(error)) is None]
    telling = next((error for error in own if _told_by(error)), _own(own) or next(iter(errors), None))
    code = _told_by(telling) if telling is not None else None
    words = _words(telling) if telling is not None else ""
    if code is None and not own:
        words = next((line for line in ended.tail if known_cause(line)), words)
        words = words or next((line for line in ended.tail if echo(line)), "")
        code = known_cause(words)
    return Failure(
        rank=rank,
        exit=ended,
        error=telling,
        code=code,
        words=words,
        echo=echo(words) if not own and code is None and words else None,
    )


def _of_native_code(lines: Iterable[str]) -> list[RankError]:
    """The exception of C++ code that ended a rank, where it tells what happened on the rank's own GPU."""
    found = next((match for line in lines if (match := _ON_THE_GPU.search(line))), None)
    return [RankError(type=found["type"], message=found["message"])] if found is not None else []


def _told_by(error: RankError) -> str | None:
    """The code that an exception's words belong to, where it was raised in a place that fits them."""
    code = known_cause(_words(error))
    if code == "DDP417" and error.stack and not any("/multiprocessing/" in frame.file for frame in error.stack):
        return None  # something else was pickled than the start of a process
    return code


def _own(errors: Sequence[RankError]) -> RankError | None:
    """The last of them that was raised by the user's own code: what a DataLoader worker passed on is its cause.

    torchrun's own errors may say nothing but that the one before tells.
    """
    if len(errors) > 1 and _PASSES_ON.search(errors[0].message):
        return errors[1]
    return errors[0] if errors else None


def _told_by_lines(log: JobLog, found: Sequence[Failure]) -> Iterator[Failure]:
    """What lines of nobody's tell by themselves, where no error tells the same."""
    told = {failure.code for failure in found}
    for line in log.said:
        code = known_cause(line)
        if code is not None and code not in told:
            told.add(code)
            yield Failure(rank=None, exit=RankExit(exit_code=None), error=None, code=code, words=line, echo=None)


def _words(error: RankError) -> str:
    return f"{error.type}: {error.message}"


def who(failures: Iterable[Failure]) -> str:
    """`ranks 0-2`; without ranks `the launcher`, or `a rank that the log does not name`."""
    failures = [*failures]
    if ranks := unique_ranks(failures):
        return group_ranks(ranks)
    launcher = all(failure.by_launcher for failure in failures)
    return "the launcher" if launcher else "a rank that the log does not name"


def unique_ranks(failures: Iterable[Failure]) -> tuple[int, ...]:
    """The ranks of these failures."""
    return tuple(sorted({rank for failure in failures for rank in failure.ranks}))
