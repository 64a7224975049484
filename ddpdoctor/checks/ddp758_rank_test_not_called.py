"""DDP758: a function that tests the rank stands in an `if` without being called."""

from __future__ import annotations

from collections.abc import Iterator

from ddpdoctor.analysis.training_code.call_graph import CallGraph
from ddpdoctor.evidence.training_code import Guard, Kind, Place
from ddpdoctor.messages.code_findings import code_finding, fix
from ddpdoctor.model import Edit, Finding, Rule, Severity

RULE = Rule(
    code="DDP758",
    name="rank-test-not-called",
    summary="`if is_main_process:` without the call: a function is always true, so every rank takes the branch",
    severity=Severity.FAIL,
    remedy="call it: `if is_main_process():`",
    explains=("DDP750",),
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


def check(graph: CallGraph) -> Iterator[Finding]:
    """One finding for each such test."""
    seen: set[tuple[str, int]] = set()
    for function in graph.functions.values():
        every = [*(call.guards for call in function.calls), *(leave.guards for leave in function.exits)]
        for guards in every:
            for guard in guards:
                name = _function(guard)
                if not name or (guard.file, guard.line) in seen:
                    continue
                seen.add((guard.file, guard.line))
                place = Place(file=guard.file, line=guard.line, column=1, function=function.place.function)
                yield code_finding(
                    RULE,
                    f"`{guard.test}` is a function and always true: every rank takes this branch",
                    place,
                    remedy=f"call it: `{guard.test}()`",
                    fix=fix(Edit.CALL, place, old=guard.test, safe=False),
                )


def _function(guard: Guard) -> str:
    origin = guard.value.only(Kind.FUNCTION)
    if (
        origin is None
        or guard.form not in {"if", "while", "and"}
        or len(guard.names) != 1
        or guard.test != guard.names[0]
    ):
        return ""
    last = guard.names[0].rpartition(".")[2]
    return last if last.startswith(_NAMES) else ""
