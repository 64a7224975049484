"""Cached answers to mutually dependent questions; partial answers are discarded once the outer question is answered."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from typing_extensions import TypeVarTuple, Unpack

T = TypeVar("T")
S = TypeVar("S")
Ts = TypeVarTuple("Ts")

_NOTHING = 1 << 30
MOST_ANEW = 500_000  # answers of one run that are dropped: generated code may hold rings of thousands of names


@dataclass(eq=False)
class Answers(Generic[T]):
    """Answers by question, each found once.

    A question that is met again while it is open has no answer yet. What is found with that gap is kept until the question
    is answered, and no longer: which question was asked first must not decide what is known. What `find` leaves out by a
    limit of its own, such as a depth, is no gap: there the order of questions can still decide.
    """

    whole: dict[Hashable, T] = field(default_factory=dict)
    """The answers without a gap."""
    partial: dict[Hashable, tuple[T, int]] = field(default_factory=dict)
    """The answers with a gap, each with the outermost open question that it lacks."""
    _open: dict[Hashable, int] = field(default_factory=dict)
    """Which questions are open, by how many were open before."""
    _stack: list[Hashable] = field(default_factory=list)
    """The questions whose answers have a gap, in the order in which they were found."""
    _lacks: int = _NOTHING
    """The outermost open question that was met since the innermost was asked."""
    _dropped: int = 0

    def ask(self, key: Hashable, find: Callable[[Unpack[Ts]], T], *args: Unpack[Ts]) -> T | None:
        """The answer to a question that `whole` does not have, by `find`; None while the question is open."""
        if key in self.partial:
            answer, lacks = self.partial[key]
            self._lacks = min(self._lacks, lacks)
            return answer
        if key in self._open:
            self._lacks = min(self._lacks, self._open[key])
            return None
        level = self._open[key] = len(self._open)
        outer, self._lacks, mark = self._lacks, _NOTHING, len(self._stack)
        try:
            found = find(*args)
        finally:
            del self._open[key]
            lacks = self._lacks
            if lacks >= level or lacks > outer:
                self._lacks = outer
        if lacks < level:
            self.partial[key] = found, lacks
            self._stack.append(key)
            return found
        self.whole[key] = found
        if lacks == level:
            self._drop(mark)
        return found

    def watch(self, find: Callable[[Unpack[Ts]], S], *args: Unpack[Ts]) -> tuple[S, bool]:
        """What `find` gives, and whether it met no open question."""
        outer, self._lacks = self._lacks, _NOTHING
        try:
            found = find(*args)
            return found, self._lacks == _NOTHING
        finally:
            if outer < self._lacks:
                self._lacks = outer

    def _drop(self, mark: int) -> None:
        """Forget the answers that lack the question that was just answered."""
        dropped, self._stack[mark:] = self._stack[mark:], []
        self._dropped += len(dropped)
        for key in dropped:
            answer, _ = self.partial.pop(key)
            if self._dropped >= MOST_ANEW:
                self.whole[key] = answer
