"""Which of the errors that a rank shows at its end is its failure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import replace

from ddpdoctor.analysis.crashes.error_patterns import ErrorTable, KnownError, secondary_error
from ddpdoctor.analysis.crashes.failure import PASSES_ON, Failure, chain, full_text
from ddpdoctor.evidence.ranks import RankError, RankExit

_ON_THE_GPU = re.compile(
    r"(?:what\(\):|terminated with exception:) .{0,400}?(?P<type>(?:CUDA|HIP) error): (?P<message>.+)"
)


def failure_of_rank(rank: int | None, ended: RankExit, table: ErrorTable) -> Failure:
    """The failure that a rank's end shows; without text where nothing shows it.

    What a rule declares comes first: an exception of the rank's own, then a line of its output, then an error that only wraps
    another one. Without any, the rank's own exception is its failure, and without such an exception the secondary error.
    """
    errors = [*chain(ended.error)] or _of_native_code(ended.tail)
    own = _own(errors)
    known = [(error, found) for error in own if (found := _known(error, table)) is not None]
    plain = [(error, found) for error, found in known if not found.pattern.wrapper]
    shown = next(iter((*(error for error, _ in plain), *own, *errors)), None)
    failure = Failure(rank=rank, exit=ended, error=shown, text="")
    if plain:
        error, found = plain[0]
        return replace(failure, text=full_text(error), known=found)
    lines = _known_lines(ended.tail, table) if known or not own else []
    if lines and not (known and lines[0][1].pattern.wrapper):
        _, first = lines[0]
        text = "\n".join(line for line, found in lines if found.code == first.code)
        return replace(failure, text=text, known=first)
    if known:
        error, found = known[0]
        return replace(failure, text=full_text(error), known=found)
    text = full_text(shown) if shown is not None else next(filter(secondary_error, ended.tail), "")
    return replace(failure, text=text, secondary_error=None if own else secondary_error(text))


def _of_native_code(lines: Iterable[str]) -> list[RankError]:
    """The exception of C++ code that ended a rank, where it shows what happened on the rank's own GPU."""
    found = next((match for line in lines if (match := _ON_THE_GPU.search(line))), None)
    return [RankError(type=found["type"], message=found["message"])] if found is not None else []


def _own(errors: Sequence[RankError]) -> list[RankError]:
    """The errors that are not secondary; one that passes another one on, as of a DataLoader worker, comes after all others.

    A TimeoutError without a message beside a secondary error is no failure of its own.
    """
    own = [error for error in errors if secondary_error(full_text(error)) is None]
    if len(own) < len(errors):
        own = [error for error in own if error.message or error.type != "TimeoutError"]
    return sorted(own, key=lambda error: PASSES_ON.search(error.message) is not None)


def _known_lines(lines: Iterable[str], table: ErrorTable) -> list[tuple[str, KnownError]]:
    """The lines that rules declare, with these rules; wrappers of other errors come last."""
    known = [
        (line, found) for line in lines if secondary_error(line) is None and (found := table.find(line)) is not None
    ]
    return sorted(known, key=lambda entry: entry[1].pattern.wrapper)


def _known(error: RankError, table: ErrorTable) -> KnownError | None:
    """The rule that declares an exception's text."""
    text = full_text(error)
    found = table.find(text, error.stack)
    if found is None and "\n" in text:  # a terminal broke its lines
        found = table.find(text.replace("\n", ""), error.stack) or table.find(text.replace("\n", " "), error.stack)
    return found
