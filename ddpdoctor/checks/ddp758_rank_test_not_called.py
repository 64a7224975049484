"""DDP758: a function that tests the rank is in an `if` without being called."""

from __future__ import annotations

import re
from collections.abc import Iterator

from ddpdoctor.analysis.training_code.call_graph import CallGraph
from ddpdoctor.evidence.code_values import Kind
from ddpdoctor.evidence.training_code import Guard, Place
from ddpdoctor.messages.code_findings import code_finding, fix
from ddpdoctor.model import Edit, Finding, Rule, Severity

RULE = Rule(
    code="DDP758",
    name="rank-test-not-called",
    summary="`if is_main_process:` without the call: a function is always true, so every rank takes the branch",
    severity=Severity.FAIL,
    remedy="call it: `if is_main_process():`",
    explains=("DDP750", "DDP755"),
)
_NAMES = (
    "is_main",
    "is_master",
    "is_rank",
    "main_process",
    "master_process",
    "rank_zero",
    "is_local_main",
    "is_primary",
)

_PARTS = re.compile(r"\b(?:and|or)\b")


def check(graph: CallGraph) -> Iterator[Finding]:
    """One finding for each such test."""
    seen: set[tuple[str, int]] = set()
    for function in graph.functions.values():
        for guard in function.tests:
            name = _function(guard)
            if not name or (guard.file, guard.line) in seen:
                continue
            seen.add((guard.file, guard.line))
            place = Place(file=guard.file, line=guard.line, column=1, function=function.place.function)
            yield code_finding(
                RULE,
                f"`{name}` is a function and always true: every rank takes this branch",
                place,
                remedy=f"call it: `{name}()`",
                fix=fix(Edit.CALL, place, old=name, safe=False),
            )


def _function(guard: Guard) -> str:
    """The function in a test that is not called, as written: the test itself, or a part of it between `and`, `or`, `not`."""
    for part in _PARTS.split(guard.test):
        name = part.strip().removeprefix("not ")
        last = name.rpartition(".")[2]
        if (name in guard.names or name.endswith(f").{last}")) and _tests_the_rank(guard, last):
            return name
    return ""


def _tests_the_rank(guard: Guard, last: str) -> bool:
    """Whether the name is one of a function that tests the rank, as its name or what it returns says."""
    return any(
        origin.kind is Kind.FUNCTION
        and origin.text.rpartition(".")[2] == last
        and (last.startswith(_NAMES) or origin.note == "tests the rank")
        for origin in guard.value.origins
    )
