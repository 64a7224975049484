"""DDP731: some ranks leave a function, a loop or the program before a call that all ranks must make."""

from __future__ import annotations

from collections.abc import Iterator

from ddpdoctor.analysis.training_code.call_graph import CallGraph
from ddpdoctor.analysis.training_code.guards import rank_guard
from ddpdoctor.analysis.training_code.later_calls import after_end, after_exit, collective_before
from ddpdoctor.analysis.training_code.reached_collectives import CallOfAllRanks
from ddpdoctor.evidence.training_code import Call, Exit, Function, Guard
from ddpdoctor.messages.code_findings import code_finding, guarded, short, through
from ddpdoctor.model import Finding, Rule, Severity

RULE = Rule(
    code="DDP731",
    name="early-exit-by-rank",
    summary="some ranks leave by a test of the rank, and the others wait for them in the next collective",
    severity=Severity.FAIL,
    remedy="let all ranks make the collective first, or turn the test around so that only printing and saving depend on it",
    leads_to=("DDP305", "DDP306"),
)
_WORDS = {
    "return": "returns",
    "break": "leaves the loop",
    "continue": "goes on to the next turn",
    "exit": "ends the process",
}


def check(graph: CallGraph) -> Iterator[Finding]:
    """One finding for each exit under a test of the rank that a collective follows."""
    for function in graph.functions.values():
        for leave in function.exits:
            guard = rank_guard(leave.guards) or _by_turn(function, leave)
            if guard is None or leave.fails or leave.form not in _WORDS or guard.form in {"and", "or"}:
                continue
            if collective_before(graph, function, guard):
                continue
            later = after_exit(graph, function, leave, guard) or (
                after_end(graph, function) if leave.form == "exit" else None
            )
            if later is not None:
                yield _finding(leave, guard, *later)


def _by_turn(function: Function, leave: Exit) -> Guard | None:
    """The test by which ranks leave a loop in different turns: `if step > rank: break`."""
    around = [loop for loop in function.loops if loop.order in leave.loops]
    counters = {loop.head.split()[1].strip("(,)") for loop in around if loop.counts or " in enumerate(" in loop.head}
    for guard in leave.guards:
        if guard.form != "if" or guard.of_rank or guard.by_rank is None or leave.form not in {"break", "return"}:
            continue
        if counters.intersection(guard.names) and "%" not in guard.test and any(sign in guard.test for sign in "<>"):
            return guard
    return None


def _finding(leave: Exit, guard: Guard, call: Call, reached: CallOfAllRanks | None) -> Finding:
    what = "the backward of the wrapped model" if reached is None else f"{short(reached.call)}"
    return code_finding(
        RULE,
        f"a rank {_WORDS[leave.form]} {guarded(guard)}, and the others wait for it in {what} in line {call.place.line}",
        leave.place,
        call.place,
        because=guard.by_rank,
        notes=through(reached.through[1:]) if reached is not None else (),
        remedy=f"make the call of line {call.place.line} on every rank before `if {guard.test}`",
        measured={"collective": "backward" if reached is None else short(reached.call)},
    )
