"""Which tests and loops stand around a line, and what the tests ask for."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from ddpdoctor.evidence.code_values import RANK_KINDS, Kind
from ddpdoctor.evidence.training_code import Function, Guard, Loop

_RANK_WORDS = re.compile(
    r"rank(?:s|id|idx)?(?![a-z])|(?<![a-z])(?:is)?(?:main|master|chief|leader|primary|coordinator)"
    r"(?:process|proc|rank|node|worker|gpu)?(?![a-z])|(?:process|proc|global|node|worker|gpu|device|is|local|world)_?zero(?![a-z])"
    r"|current_device|device\.index|cuda:0"
)
_CAMEL = re.compile(r"(?<=[a-z])(?=[A-Z])")


def unconditional(guards: Iterable[Guard], function: Function) -> bool:
    """Whether nothing decides about a line but whether there are several ranks."""
    return all(
        guard.form == "main"
        or (guard.state and not {name.partition(".")[0] for name in guard.names} & {*function.parameters} - {"self"})
        for guard in guards
    )


def rank_guard(guards: Iterable[Guard]) -> Guard | None:
    """The first test that picks one rank, or all but one, without early exits before the line."""
    for guard in guards:
        if guard.of_rank and guard.by_rank and guard.form not in {"after", "decorator"} and not _asks_for_types(guard):
            return guard
    return None


def may_ask_for_rank(guard: Guard) -> bool:
    """Whether a test may ask for the rank: its value may depend on it, or is not known, and its names say so."""
    if guard.by_rank is None and guard.value.may(*RANK_KINDS) is not None and not guard.state:
        return True
    known = guard.by_rank is not None or guard.value.may(Kind.FUNCTION) is not None
    unknown = not known and not guard.state and guard.form not in {"main", "except"}
    return unknown and _RANK_WORDS.search(_CAMEL.sub("_", guard.test).lower()) is not None


def _asks_for_types(guard: Guard) -> bool:
    """Whether a test also asks what kind of object there is: which ranks pass is then not known from the text."""
    return "type(" in guard.test or "isinstance(" in guard.test


def inner_loops(function: Function, order: int) -> Iterator[Loop]:
    """The loops of a function around a place, innermost first."""
    yield from sorted(
        (loop for loop in function.loops if loop.order < order <= loop.last_order), key=lambda loop: -loop.order
    )
