"""DDP737: two branches call the collectives of two groups in opposite order."""

from __future__ import annotations

from collections.abc import Iterator

from ddpdoctor.analysis.training_code.call_graph import CallGraph
from ddpdoctor.evidence.training_code import Call
from ddpdoctor.messages.code_findings import code_finding
from ddpdoctor.model import Finding, Rule, Severity

RULE = Rule(
    code="DDP737",
    name="groups-in-different-order",
    summary="ranks use two process groups in opposite order: each side waits in the group that the other uses last",
    severity=Severity.FAIL,
    remedy="use the groups in one order on every rank",
    leads_to=("DDP312",),
)


def check(graph: CallGraph) -> Iterator[Finding]:
    """One finding for each test of the rank whose branches use the same groups in another order."""
    for function in graph.functions.values():
        branches: dict[int, dict[tuple[str, int], list[Call]]] = {}
        tests: dict[int, str] = {}
        for call in function.calls:
            if call.does != "collective" or (call.argument("group") is None):
                continue
            for guard in call.guards:
                if guard.by_rank and guard.form in {"if", "else"}:
                    branches.setdefault(guard.line, {}).setdefault((guard.form, guard.branch), []).append(call)
                    tests[guard.line] = guard.test
        for line, sides in branches.items():
            if len(sides) != 2:
                continue
            one, other = sides.values()
            mine, theirs = [_group(call) for call in one], [_group(call) for call in other]
            if len(set(mine)) > 1 and mine != theirs and sorted(mine) == sorted(theirs):
                yield code_finding(
                    RULE,
                    f"under `if {tests[line]}` the groups come as {', '.join(mine)}, and in the other branch as "
                    f"{', '.join(theirs)}: each side waits for the other",
                    one[0].place,
                    other[0].place,
                )


def _group(call: Call) -> str:
    given = call.argument("group")
    return given.text if given is not None else ""
