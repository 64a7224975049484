"""Where the lines that matter stand in the user's source: in which loops, under which conditions."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Loop:
    """A `for` or `while` around a line: its own line, its last line, and its head as written.

    `skips` are the lines of its own `continue`s.
    """

    line: int
    last_line: int
    head: str
    skips: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Condition:
    """An `if` around a line: where it stands, its test as written, and in which of its branches the line is.

    `line` to `last_line` is the whole statement with all its branches. `branch` counts them: 0 is the body, and every
    `elif` or `else` adds one. An `except` around a line is a condition too: its test is `except ValueError`. `by_rank` is
    whether a name stands in the test that the file gives the rank to, as in `r = dist.get_rank()`.
    """

    line: int
    last_line: int
    test: str
    branch: int
    by_rank: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class CodePlace:
    """One line of one function, with the loops and conditions of that function around it, outermost first.

    `calls` are the names that the statement on this line calls, as written: `input`, `sys.stdin.readline`.
    """

    file: str
    line: int
    function: str
    loops: tuple[Loop, ...] = ()
    conditions: tuple[Condition, ...] = ()
    calls: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceCode:
    """The places of the user's code that ranks were at, where its files could be read."""

    places: tuple[CodePlace, ...] = ()

    def at(self, file: str, line: int) -> CodePlace | None:
        """The place of this line, or None where its file could not be read."""
        return next((place for place in self.places if place.line == line and place.file == file), None)


KINDS = (SourceCode,)
