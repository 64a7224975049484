"""Findings about lines of training code: where, the chain of reasons, and what a run would show."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from ddpdoctor.evidence.code_values import Origin
from ddpdoctor.evidence.training_code import Call, Guard, Place
from ddpdoctor.model import Edit, Finding, Fix, Measure, Rule, Severity, Where

_TEST = re.compile(r"(?:^|/)tests?/|(?:^|/)test_[^/]*$|_test\.py$")


def code_finding(
    rule: Rule,
    message: str,
    *places: Place,
    because: Origin | None = None,
    notes: Sequence[str] = (),
    remedy: str | None = None,
    severity: Severity | None = None,
    measured: Mapping[str, Measure] | None = None,
    fix: Fix | None = None,
) -> Finding:
    """A finding at `places`, the guilty line first; `because` adds the chain from a value to what it comes from."""
    found = rule.finding(
        message,
        where=[where(place) for place in places],
        details=[*notes, *(chain(because) if because is not None else ())],
        remedy=remedy,
        severity=severity,
    )
    return replace(found, measured=measured or {}, fix=fix)


def fix(edit: Edit, place: Place, *, old: str = "", new: str = "", safe: bool = True) -> Fix:
    """A change at `place`."""
    return Fix(edit=edit, file=place.file, line=place.line, column=place.column, old=old, new=new, safe=safe)


def line_beside(place: Place, shown: Place) -> str:
    """`line 12`, or `other.py:12`, where a finding shows the line `shown`, too."""
    return f"line {place.line}" if place.file == shown.file else f"{place.file}:{place.line}"


def where(place: Place, note: str = "") -> Where:
    """A line of code as a finding shows it."""
    return Where(rank=None, file=place.file, line=place.line, function=place.function, note=note, column=place.column)


def chain(origin: Origin) -> list[str]:
    """`because rank = int(os.environ["RANK"]) (train.py:12)`, one line per step."""
    return [f"because {link.text} ({link.file}:{link.line})" for link in origin.why]


def chain_places(origin: Origin, place: Place) -> list[Place]:
    """The lines of the first and the last step from a value to what it comes from, but not the line of `place` itself."""
    links = dict.fromkeys((link.file, link.line) for link in (*origin.why[:1], *origin.why[-1:]))
    return [
        Place(file=file, line=line, column=1, function=place.function)
        for file, line in links
        if (file, line) != (place.file, place.line)
    ]


def in_tests(place: Place) -> bool:
    """Whether a line belongs to unit tests: these are no jobs on several nodes, or beside other jobs."""
    return _TEST.search(place.file) is not None


def of_this_rank(origin: Origin) -> str:
    """What a rank has for itself, as a noun: `loss`, `batch`, `clock`, `random number`, `queue`."""
    if origin.made:
        return "batch" if origin.note in {"batch", "item"} else "loss"
    part = dict.fromkeys(("part", "length", "own", "even"), "part of the data")
    return {"draw": "random number", **part}.get(origin.note, origin.note)


def alike(guard: Guard, origin: Origin) -> str:
    """How all ranks come to the same answer of a test that each decides by `origin`."""
    if origin.note == "draw":
        return "draw on rank 0 and broadcast the number, or seed the generator alike on all ranks"
    result = f"put the result of `{guard.test}` into a tensor"
    return f"let all ranks decide alike: {result} and all_reduce it with MAX before the test"


def guarded(guard: Guard) -> str:
    """How a test decides about a line: ``inside `if rank == 0` (line 12)``."""
    if guard.form == "decorator":
        return f"in a function under {guard.test}"
    if guard.form == "else":
        return f"in the `else` of `if {guard.test}` (line {guard.line})"
    if guard.form == "after":
        return f"after `if {guard.test}` (line {guard.line}) has left"
    word = {"case": "match", "and": "if", "or": "if not"}.get(guard.form, guard.form)
    return f"inside `{word} {guard.test}` (line {guard.line})"


def out_of(guard: Guard, line: int) -> str:
    """What makes a line run on every rank that a test, or a decorator, leaves to some."""
    if guard.form == "decorator":
        return f"move line {line} out of the function that {guard.test} runs on one rank"
    return f"move line {line} out of `if {guard.test}`"


def short(call: Call) -> str:
    """The name of what is called, as people say it: `all_reduce`, `barrier`."""
    return call.name.rpartition(".")[2]


def through(calls: Iterable[Call]) -> list[str]:
    """One line for each call on the way to the one that counts."""
    return [f"through {short(call)}() at {call.place.file}:{call.place.line}" for call in calls]
