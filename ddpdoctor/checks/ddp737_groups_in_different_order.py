"""DDP737: two branches call the collectives of two groups in opposite order."""

from __future__ import annotations

from collections.abc import Hashable, Iterator

from ddpdoctor.analysis.training_code.call_graph import CallGraph
from ddpdoctor.analysis.training_code.collective_calls import group_of
from ddpdoctor.analysis.training_code.inlined_steps import InlinedStep, calls_in, unfolded
from ddpdoctor.evidence.code_values import Value
from ddpdoctor.evidence.training_code import Call, Function, Guard
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


_BRANCHES = frozenset({"if", "else", "case", "after"})
"""Forms of tests that send some ranks one way, and the others another."""


def check(graph: CallGraph) -> Iterator[Finding]:
    """One finding for each test of the rank whose branches use the same groups in another order."""
    for function in graph.functions.values():
        for test, (one, other) in _sides(graph, function):
            mine, theirs = [_group(step) for step in one], [_group(step) for step in other]
            if len(set(mine)) > 1 and mine != theirs and sorted(mine) == sorted(theirs):
                yield code_finding(
                    RULE,
                    f"under `{test}` the groups come as {_listed(one)}, and in the other branch as "
                    f"{_listed(other)}: each side waits for the other",
                    one[0].first.place,
                    other[0].first.place,
                )


def _sides(graph: CallGraph, function: Function) -> Iterator[tuple[str, tuple[list[InlinedStep], list[InlinedStep]]]]:
    """The tests of the rank in a function that send ranks two ways, with the collectives over groups on each, in order."""
    if not any(guard.by_rank and guard.form in _BRANCHES for call in function.calls for guard in call.guards):
        return
    sides: dict[Hashable, dict[Hashable, list[InlinedStep]]] = {}
    tests: dict[Hashable, str] = {}
    for _, step, call in calls_in(unfolded(graph, function)):
        if call.does == "collective" and group_of(call) is not None:
            for guard in step.first.guards:
                if guard.by_rank and guard.form in _BRANCHES:
                    test, side = _of(guard, step.loops)
                    sides.setdefault(test, {}).setdefault(side, []).append(step)
                    tests.setdefault(test, f"{'match' if guard.form == 'case' else 'if'} {guard.test}")
    yield from (
        (tests[test], (each[0], each[1])) for test, found in sides.items() if len(each := [*found.values()]) == 2
    )


def _of(guard: Guard, loops: tuple[int, ...]) -> tuple[Hashable, Hashable]:
    """The test that a branch belongs to, and which one it is: `if first:` and `if not first:` in one loop are two of one test."""
    if guard.form != "case" and guard.branch <= (guard.form == "else"):
        negated = guard.test.startswith("not ")
        return (guard.test.removeprefix("not "), loops), negated is (guard.form == "if")
    return guard.line, (guard.form, guard.branch)


def _group(step: InlinedStep) -> str:
    """The group of a collective: the call that made it, or its name."""
    given = _given(step)
    made = [*given.made]
    return made[0] if len(made) == 1 and len(given.origins) == 1 else given.text


def _given(step: InlinedStep) -> Value:
    assert isinstance(step.item, Call)
    given = group_of(step.item)
    assert given is not None
    return step.as_given(given)


def _listed(steps: list[InlinedStep]) -> str:
    return ", ".join(_given(step).text for step in steps)
