"""How ranks failed: each one's own error, separated from secondary errors, the first one first."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from ddpdoctor.analysis.crashes.error_patterns import ErrorTable, KnownError, SecondaryError, secondary_error
from ddpdoctor.analysis.crashes.tries_again import without_what_was_caught
from ddpdoctor.evidence import PerRank
from ddpdoctor.evidence.frames import Frame, is_launchers, is_programs, is_users
from ddpdoctor.evidence.job_log import FailureLine, JobLog
from ddpdoctor.evidence.process import Stall
from ddpdoctor.evidence.ranks import RankError, RankExit
from ddpdoctor.evidence.source import SourceCode
from ddpdoctor.grouping import grouped
from ddpdoctor.model import SkipCheck, Where, group_ranks
from ddpdoctor.whole_numbers import whole_number

SIGABRT = 6  # with it native code ends itself: where its last messages are a secondary error, so is the end
SIGKILL = 9
_SHARED_MEMORY = re.compile(r"/pandarallel/|/multiprocessing/(?:heap|shared_memory|managers)\.py$")
_WARNING = re.compile(r"^\[?W\d{0,4} |^WARNING\b")
_OF_RENDEZVOUS = ("DDP20", "DDP22")
_PASSES_ON = re.compile(r"^Caught |See inner exception for details")
_ON_THE_GPU = re.compile(
    r"(?:what\(\):|terminated with exception:) .{0,400}?(?P<type>(?:CUDA|HIP) error): (?P<message>.+)"
)
SHOWN_LINES = 20
LINES_TO_LAST_ERROR = 3  # from NCCL's name of an error to what it quotes below `Last error:`
NO_PLACE = "the log shows no line of the user's own code"
NEVER = 1 << 60  # the order of an end that nobody saw


@dataclass(frozen=True, slots=True, kw_only=True)
class Failure:
    """One rank's failure; `rank` is None where the log does not tell whose it is."""

    rank: int | None
    """None where the log does not show whose it is."""
    exit: RankExit
    """How the process ended, as far as it is known."""
    error: RankError | None
    """The exception that shows the most: the rank's own, even where another one was raised after it."""
    text: str
    """The text that `known` was found in: of the error, or of lines."""
    known: KnownError | None = None
    """The rule that declares this text; None where no rule does."""
    secondary_error: SecondaryError | None = None
    """Set where nothing of it is the rank's own."""

    @property
    def code(self) -> str | None:
        """The code of the rule that declares its text."""
        return self.known.code if self.known is not None else None

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
    def ended_badly(self) -> bool:
        """Whether it ended with a code above 0, as its launcher or its own `sys.exit(N)` shows."""
        code = self.exit.exit_code
        if code is None and self.left and self.error is not None:
            code = whole_number(self.error.message)
        return (code or 0) > 0

    @property
    def in_shared_memory(self) -> bool:
        """Whether it is an error of files of which the stack shows that they are in /dev/shm."""
        stacks = (error.stack for error in chain(self.error))
        return any(_SHARED_MEMORY.search(frame.file) for stack in stacks for frame in stack)

    @property
    def by_launcher(self) -> bool:
        """Whether torchrun raised it, which has no rank."""
        stack = self.error.stack if self.error is not None else ()
        return self.rank is None and any(is_launchers(frame.file) for frame in stack)

    @property
    def place(self) -> Frame | None:
        """The innermost line of the user's own code in the error's stack, or in that of its cause; else a framework's.

        Where a DataLoader worker raised it outside of the user's code, the line at which the rank received it.
        """
        passed_on = (
            one for one in chain(self.exit.error) if _PASSES_ON.search(one.message) and one.cause == self.error
        )
        frames = [frame for error in (*chain(self.error), *passed_on) for frame in error.stack]
        users = (frame for frame in frames if is_users(frame.file))
        return next(users, None) or next((frame for frame in frames if is_programs(frame.file)), None)

    def where(self, note: str = "") -> tuple[Where, ...]:
        """The place as a finding shows it."""
        place = self.place
        if place is None:
            return ()
        return (Where.at(place, rank=self.rank, note=note),)


@dataclass(frozen=True, kw_only=True)
class Failures:
    """How ranks of the job failed."""

    all: tuple[Failure, ...]
    """Every failure, the first one first."""
    finished: tuple[int, ...]
    """The ranks that ended with exit code 0."""
    log: JobLog | None
    """The job's log; None where none was given."""

    def of(self, code: str) -> tuple[Failure, ...]:
        """The failures whose error text belongs to this rule."""
        return tuple(self._by_code.get(code, ()))

    @cached_property
    def mismatched(self) -> tuple[Failure, ...]:
        """Those of ranks that gloo aborted because two different calls had met."""
        return tuple(failure for failure in self.all if failure.secondary_error is SecondaryError.MISMATCHED)

    @cached_property
    def _by_code(self) -> Mapping[str | None, Sequence[Failure]]:
        return grouped((failure.code, failure) for failure in self.all)

    def without_a_place(self, code: str) -> bool:
        """Whether exceptions in the log belong to this rule, and no line of the user's own is in any of their stacks."""
        found = [failure for failure in self.of(code) if failure.error is not None and not failure.by_launcher]
        return self.log is not None and bool(found) and all(failure.place is None for failure in found)

    @property
    def first_line(self) -> FailureLine | None:
        """The first line, by its time where all lines show one, that shows that the job failed; None where none does."""
        if self.log is None:
            return None
        lines, ended = self.log.failure_lines, self.log.ended_by
        if not self.all and not lines and ended is None:
            return None
        timed = [line for line in lines if line.at is not None]
        if timed and len(timed) == len(lines):
            return min(timed, key=lambda line: line.at or 0.0)
        if lines:
            return lines[0]
        failed = next(iter(self.all), None)
        if failed is None:
            return FailureLine(text=ended or "")
        text = failed.text or (f"exit code {failed.exit.exit_code}" if failed.exit.exit_code is not None else "")
        return FailureLine(text=text.partition("\n")[0], rank=failed.rank) if text else None

    @property
    def own(self) -> tuple[Failure, ...]:
        """Exceptions of a rank's own that no known message explains."""
        return tuple(
            failure
            for failure in self.all
            if failure.error and not failure.left and not failure.code and not failure.secondary_error
        )

    @property
    def wordless(self) -> tuple[Failure, ...]:
        """Ranks that ended with a code above 0, first of all, and of which nothing else is known than where they left."""
        told = any(
            failure.code or (failure.secondary_error is None and failure.error and not failure.left)
            for failure in self.all
        )
        if told or self.killed:
            return ()
        return tuple(
            failure
            for failure in self.all
            if (failure.error is None or failure.left) and failure.ended_badly and not failure.exit.ended_by_launcher
        )

    @property
    def lost(self) -> tuple[Failure, ...]:
        """Ranks that say no more than that a peer was gone."""
        return tuple(failure for failure in self.all if failure.secondary_error is SecondaryError.PEER_GONE)

    @property
    def killed(self) -> tuple[Failure, ...]:
        """Ranks that a signal ended, other than their launcher's, and that raised nothing of their own before."""
        return (*self._ended_by_signal, *self._interrupted)

    @property
    def _interrupted(self) -> tuple[Failure, ...]:
        """Ranks that SIGINT reached as Python shows it, and not their peers or their launcher, as Ctrl-C would."""
        hit = tuple(failure for failure in self.all if failure.error and failure.error.type == "KeyboardInterrupt")
        launcher = self.log is not None and self.log.signal is not None
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
            and (failure.error is None or failure.secondary_error is not None)
            and not (failure.exit.signal == SIGABRT and (failure.secondary_error is not None or self._aborted(failure)))
        )

    def _aborted(self, failure: Failure) -> bool:
        """Whether this is a SIGABRT of nobody knows whom, beside what ranks waited for: their watchdogs send it."""
        return failure.rank is None and any(other.secondary_error is not None for other in self.all)


def chain(error: RankError | None) -> Iterator[RankError]:
    """An exception and its causes, the one that was raised last first."""
    while error is not None:
        yield error
        error = error.cause


def error_text(error: RankError) -> str:
    """`KeyError: 'label'`: type and the first line of the message."""
    first = error.message.partition("\n")[0].strip()
    return f"{error.type}: {first}" if first else error.type


def derive(
    exits: PerRank[RankExit] | None,
    log: JobLog | None,
    errors: ErrorTable,
    stall: Stall | None = None,
    code: SourceCode | None = None,
) -> Failures:
    """What is known of how the job's ranks failed.

    What is in the log of a job that hung until all of its ranks were ended, or whose ranks all ended well, has ended none
    of them: a thread, or an error that was caught.

    Raises:
        SkipCheck: nobody saw a rank end, and there is no log.
    """
    if exits is None and log is None:
        raise SkipCheck("no job log and no exit status of any rank")
    found = [
        _failure(entry.rank, without_what_was_caught(entry.value, code), errors)
        for entry in exits or ()
        if entry.value.exit_code != 0
    ]
    hung = stall is not None and exits is not None and all(entry.value.ended_by_launcher for entry in exits)
    well = exits is not None and not found and log is not None and not (log.ends or log.errors or log.failure_lines)
    if log is not None and not hung and not well:
        found += [_failure(None, RankExit(exit_code=None, error=error, tail=()), errors) for error in log.errors]
        found += [_of_nobody(end, log) for end in log.ends]
        found += _from_lines(log, found, errors, running=stall is not None)
        found += _out_of_memory(log, found)
        if not any(map(_failed, found)):
            found += [_failure(None, RankExit(exit_code=None, error=error, tail=()), errors) for error in log.cut[:1]]
    return Failures(
        all=tuple(sorted((failure for failure in found if _failed(failure)), key=lambda failure: failure.order)),
        finished=tuple(entry.rank for entry in exits or () if entry.value.exit_code == 0),
        log=log,
    )


def _failed(failure: Failure) -> bool:
    return (
        failure.error is not None
        or failure.exit.exit_code is not None
        or failure.code is not None
        or failure.secondary_error is not None
    )


def _failure(rank: int | None, ended: RankExit, table: ErrorTable) -> Failure:
    errors = [*chain(ended.error)]
    errors += _of_native_code(ended.tail) if not errors else []
    own = [error for error in errors if secondary_error(_text_of(error)) is None]
    if len(own) < len(errors):
        own = [
            error for error in own if error.message or error.type != "TimeoutError"
        ]  # what the words about a peer explain
    if len(own) > 1 and _PASSES_ON.search(own[0].message):
        own = [*own[1:], own[0]]
    known = [(error, found) for error in own if (found := _known(error, table)) is not None]
    plain = [(error, found) for error, found in known if not found.pattern.wrapper]
    telling = next((error for error, _ in plain), None) or _own(own) or next(iter(errors), None)
    if plain:
        return Failure(rank=rank, exit=ended, error=telling, text=_text_of(plain[0][0]), known=plain[0][1])
    if known or not own:
        lines = [(line, table.find(line)) for line in ended.tail if secondary_error(line) is None]
        told = [(line, found) for line, found in lines if found is not None]
        told.sort(key=lambda entry: entry[1].pattern.wrapper)
        if told and not (known and told[0][1].pattern.wrapper):
            same = [line for line, found in told if found.code == told[0][1].code]
            return Failure(rank=rank, exit=ended, error=telling, text="\n".join(same), known=told[0][1])
    if known:
        return Failure(rank=rank, exit=ended, error=telling, text=_text_of(known[0][0]), known=known[0][1])
    words = _text_of(telling) if telling is not None else ""
    if not own:
        words = words or next((line for line in ended.tail if secondary_error(line)), "")
    return Failure(
        rank=rank,
        exit=ended,
        error=telling,
        text=words,
        secondary_error=secondary_error(words) if not own and words else None,
    )


def _of_native_code(lines: Iterable[str]) -> list[RankError]:
    """The exception of C++ code that ended a rank, where it shows what happened on the rank's own GPU."""
    found = next((match for line in lines if (match := _ON_THE_GPU.search(line))), None)
    return [RankError(type=found["type"], message=found["message"])] if found is not None else []


def _known(error: RankError, table: ErrorTable) -> KnownError | None:
    """The rule that declares an exception's text."""
    words = _text_of(error)
    found = table.find(words, error.stack)
    if found is None and "\n" in words:  # a terminal broke its lines
        found = table.find(words.replace("\n", ""), error.stack) or table.find(words.replace("\n", " "), error.stack)
    return found


def _own(errors: Sequence[RankError]) -> RankError | None:
    """The last of them that was raised by the user's own code: what a DataLoader worker passed on is its cause.

    torchrun's own errors may say nothing but that the one before tells.
    """
    if len(errors) > 1 and _PASSES_ON.search(errors[0].message):
        return errors[1]
    return errors[0] if errors else None


def _of_nobody(end: RankExit, log: JobLog) -> Failure:
    """The end of a process whose rank the log does not show."""
    killed = end.exit_code == -SIGKILL and log.out_of_memory is not None
    return Failure(rank=None, exit=replace(end, kernel_said=log.out_of_memory) if killed else end, error=None, text="")


def _out_of_memory(log: JobLog, found: Sequence[Failure]) -> Iterator[Failure]:
    """The process that the kernel killed, where no end of a process is known that it explains."""
    if log.out_of_memory is not None and not any(failure.exit.signal == SIGKILL for failure in found):
        yield Failure(rank=None, exit=RankExit(exit_code=-SIGKILL, kernel_said=log.out_of_memory), error=None, text="")


def _from_lines(log: JobLog, found: Sequence[Failure], table: ErrorTable, *, running: bool) -> Iterator[Failure]:
    """What lines of nobody show by themselves, where no error shows the same.

    A warning of the rendezvous counts where nothing else failed: what it warns of is tried again. Of a job that still runs no
    line counts but those of C++ code that gives up.
    """
    outer = {failure.code for failure in found}
    known = [failure.known.pattern for failure in found if failure.known is not None]
    by_code: dict[str, list[tuple[FailureLine, KnownError]]] = {}
    lines = [line for line in log.failure_lines if line.rank is None] or [FailureLine(text=text) for text in log.said]
    for line in lines:
        match = table.find(line.text) if secondary_error(line.text) is None else None
        if (
            match is not None
            and match.pattern not in known
            and not (match.pattern.wrapper and (match.code in outer or _begins_an_echo(line, lines, found)))
            and not (running and _WARNING.match(line.text))
        ):
            by_code.setdefault(match.code, []).append((line, match))
    own = any(failure.error is not None and failure.code is None and not failure.secondary_error for failure in found)
    plain = {code for code, each in by_code.items() if not _only_warns(each) and not each[0][1].pattern.wrapper}
    elsewhere = own or any(
        not code.startswith(_OF_RENDEZVOUS) for code in plain | {code for code in outer if code is not None}
    )
    for each in by_code.values():
        if each[0][1].pattern.wrapper and (plain or own or any(not pattern.wrapper for pattern in known)):
            continue
        if _only_warns(each) and elsewhere:
            continue
        words = "\n".join(dict.fromkeys(line.text for line, _ in each[:SHOWN_LINES]))
        yield Failure(rank=None, exit=RankExit(exit_code=None), error=None, text=words, known=each[0][1])
    lost = next((line for line in lines if secondary_error(line.text) is not None), None)
    if lost is not None and not by_code and not found:
        kind = secondary_error(lost.text)
        yield Failure(rank=None, exit=RankExit(exit_code=None), error=None, text=lost.text, secondary_error=kind)


def _begins_an_echo(line: FailureLine, lines: Sequence[FailureLine], found: Iterable[Failure]) -> bool:
    """Whether the message that this line begins ends with words that show no more than a peer's end."""
    if any(failure.secondary_error and failure.text.partition("\n")[0] in line.text for failure in found):
        return True
    if any(failure.secondary_error and line.text in failure.text for failure in found):
        return True
    after = (other for other in lines if 0 < other.number - line.number <= LINES_TO_LAST_ERROR)
    return any(secondary_error(other.text) is SecondaryError.PEER_GONE for other in after)


def _only_warns(lines: Sequence[tuple[FailureLine, KnownError]]) -> bool:
    return all(_WARNING.match(line.text) for line, _ in lines)


def _text_of(error: RankError) -> str:
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
