"""The failure of one rank: its error, the rule that declares the error's text, and the line of the user's code."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from ddpdoctor.analysis.crashes.error_patterns import KnownError, SecondaryError
from ddpdoctor.evidence.frames import Frame, is_launchers, is_programs, is_users
from ddpdoctor.evidence.ranks import RankError, RankExit
from ddpdoctor.model import Where, group_ranks
from ddpdoctor.whole_numbers import whole_number

_SHARED_MEMORY = re.compile(r"/pandarallel/|/multiprocessing/(?:heap|shared_memory|managers)\.py$")
PASSES_ON = re.compile(r"^Caught |^CheckpointException ranks:|See inner exception for details")
SHOWN_CHARACTERS = 200  # of the second line of a message, which may list all keys of a checkpoint
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
        passed_on = (one for one in chain(self.exit.error) if PASSES_ON.search(one.message) and one.cause == self.error)
        frames = [frame for error in (*chain(self.error), *passed_on) for frame in error.stack]
        users = (frame for frame in frames if is_users(frame.file))
        return next(users, None) or next((frame for frame in frames if is_programs(frame.file)), None)

    def where(self, note: str = "") -> tuple[Where, ...]:
        """The place as a finding shows it."""
        place = self.place
        if place is None:
            return ()
        return (Where.at(place, rank=self.rank, note=note),)


def chain(error: RankError | None) -> Iterator[RankError]:
    """An exception and its causes, the one that was raised last first."""
    while error is not None:
        yield error
        error = error.cause


def error_text(error: RankError) -> str:
    """`KeyError: 'label'`: type and the first line of the message; one that ends with a colon or `...` takes in the next one."""
    first, *more = [line.strip() for line in error.message.splitlines() if line.strip()] or [""]
    if first.endswith((":", "...")) and more:
        first = f"{first} {more[0][:SHOWN_CHARACTERS]}"
    return f"{error.type}: {first}" if first else error.type


def full_text(error: RankError) -> str:
    """Type and whole message, as rules search them."""
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
