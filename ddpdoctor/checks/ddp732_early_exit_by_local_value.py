"""DDP732: a rank leaves the loop because of its own loss, batch or clock."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import takewhile

from ddpdoctor.analysis.training_code.all_ranks import on_all_ranks
from ddpdoctor.analysis.training_code.call_graph import CallGraph
from ddpdoctor.analysis.training_code.guards import inner_loops
from ddpdoctor.analysis.training_code.inlined_steps import unfolded
from ddpdoctor.analysis.training_code.later_calls import (
    after_exit,
    collective_before,
    leads_to_backward,
    needs_all,
)
from ddpdoctor.analysis.training_code.local_values import own_value
from ddpdoctor.analysis.training_code.reached_collectives import leads_to_collective
from ddpdoctor.analysis.training_code.several_ranks import runs_several
from ddpdoctor.evidence.code_values import RANK_KINDS, Kind, Origin
from ddpdoctor.evidence.training_code import STOPS, Call, Exit, Function, Guard, Loop
from ddpdoctor.messages.code_findings import alike, code_finding, guarded, of_this_rank, short
from ddpdoctor.model import Finding, Rule, Severity

RULE = Rule(
    code="DDP732",
    name="early-exit-by-local-value",
    summary="a rank leaves a step or a loop because of a value of its own, and the others wait for it",
    severity=Severity.FAIL,
    remedy="let all ranks decide alike: all_reduce the value before the test, for instance the maximum of a 0/1 flag",
    leads_to=("DDP305", "DDP306", "DDP510"),
)
_WORDS = {
    "return": "returns",
    "break": "leaves the loop",
    "continue": "skips the rest of the step",
    "exit": "ends the process",
}
_MAY_FAIL = frozenset({"forward", "backward", "load", "download"})
"""What fails on one rank alone: it runs out of memory, or does not find its file."""
_HARMLESS = ("KeyboardInterrupt", "StopIteration", "Import", "FileNotFound", "Key", "Attribute", "Queue", "Empty", "Index",
             "TypeError", "NotImplemented", "StopAsync", "Exists", "Permission", "JSON")  # fmt: skip


def check(graph: CallGraph) -> Iterator[Finding]:
    """One finding for each such exit or loop, and for each exception that is swallowed in the loop over the batches."""
    for function in graph.functions.values():
        yield from _stopped(graph, function)
        for loop in function.loops:
            yield from _turns(graph, function, loop)
        for leave in function.exits:
            if leave.form == "swallow" or (
                leave.form == "continue" and leave.since and not _ends_swallowing(function, leave)
            ):
                yield from _swallowed(graph, function, leave)
            elif leave.form in _WORDS and not leave.fails:
                skipped = _skipped(graph, function, leave)
                yield from [skipped] if skipped is not None else _left(graph, function, leave)


def _turns(graph: CallGraph, function: Function, loop: Loop) -> Iterator[Finding]:
    """A loop that turns as often as a value of this rank says, with calls inside that all ranks must make."""
    origin = own_value(graph, function, loop.over) if loop.counts else None
    if origin is None or origin.note in {"part", "length", "picked"} or loop.over.may(*RANK_KINDS):
        return
    step = needs_all(graph, function, loop)
    if step is None:
        return
    call, what = step
    yield code_finding(
        RULE,
        f"`{loop.head}` turns as often as each rank's own {of_this_rank(origin)} says, and the {what} in line "
        f"{call.place.line} needs all ranks: those that turn once more wait for the others",
        loop.place,
        call.place,
        because=origin,
        remedy="let all ranks turn equally often: all_reduce the value that decides with MAX before the loop",
        measured={"collective": what},
    )


def _stopped(graph: CallGraph, function: Function) -> Iterator[Finding]:
    """A callback of transformers that tells its own Trainer to stop, by a value of its rank."""
    if function.hook != "transformers" or not runs_several(graph, function, function.hook):
        return
    for change in function.changes:
        if change.key.rpartition(".")[2] not in STOPS or change.value.constant != "True":
            continue
        for guard in change.guards:
            origin = own_value(graph, function, guard.value) if guard.by_rank is None else None
            if origin is None or collective_before(graph, function, guard):  # DDP730 names that
                continue
            yield code_finding(
                RULE,
                f"`{change.key} = True` stands {guarded(guard)}, which each rank decides by its own {of_this_rank(origin)}: "
                "a rank stops, and the others wait for it in the next backward",
                change.place,
                because=origin,
                remedy=alike(guard, origin),
                measured={"collective": "backward"},
            )
            return


def _ends_swallowing(function: Function, leave: Exit) -> bool:
    """Whether the handler that an exit is in goes on at its end as well: that end is named then."""
    return any(other.form == "swallow" and other.since == leave.since for other in function.exits)


def _left(graph: CallGraph, function: Function, leave: Exit) -> Iterator[Finding]:
    if any(guard.by_rank and guard.of_rank for guard in leave.guards if guard.form != "after"):
        return  # DDP731 names it
    for guard in leave.guards:
        if guard.by_local is None or guard.by_rank is not None or guard.form == "after":
            continue
        origin = own_value(graph, function, guard.value)
        if origin is None or not _in_a_loop(graph, function, leave, origin):
            continue
        if collective_before(graph, function, guard):
            continue  # which may pair with the one that follows
        later = after_exit(graph, function, leave, guard)
        if later is None:
            continue
        call, reached = later
        what = "the backward of the wrapped model" if reached is None else short(reached.call)
        yield code_finding(
            RULE,
            f"a rank {_WORDS[leave.form]} {guarded(guard)}, which each rank decides by its own {of_this_rank(origin)}: the "
            f"others wait for it in {what} in line {call.place.line}",
            leave.place,
            call.place,
            because=origin,
            remedy=alike(guard, origin),
            measured={"collective": "backward" if reached is None else short(reached.call)},
        )
        return


def _skipped(graph: CallGraph, function: Function, leave: Exit) -> Finding | None:
    """A training_step of Lightning that makes no backward where this rank's own loss is bad, by itself or by Lightning."""
    if (
        leave.form != "return"
        or function.place.function != "training_step"
        or not graph.any_program(function, ("lightning",))
    ):
        return None
    guard = next((one for one in leave.guards if one.form == "if" and one.by_local and not one.by_rank), None)
    loss = guard.value.may(Kind.LOCAL) if guard is not None else None
    if guard is None or loss is None or loss.note != "forward" or guard.value.may(Kind.SHARED):
        return None
    by_hand = graph.any_program(function, ("manual_backward",))
    missed = next((call for call in function.calls if call.does == "backward" and call.order > leave.order), None)
    if missed is None if by_hand else not leave.empty:
        return None
    decides = f"{guarded(guard)}, which each rank decides by its own {of_this_rank(loss)}"
    return code_finding(
        RULE,
        f"training_step returns {decides}: the others wait for it in the backward in line {missed.place.line}"
        if missed is not None
        else f"training_step returns None {decides}: Lightning raises RuntimeError where it runs several ranks, or the others "
        "wait in the backward",
        leave.place,
        because=loss,
        remedy="return a loss on every rank: `torch.nan_to_num(loss)`, or decide by `self.all_gather(...)` of the test",
        measured={"collective": "backward"},
    )


def _in_a_loop(graph: CallGraph, function: Function, leave: Exit, origin: Origin) -> bool:
    """Whether the exit is in a loop, or leaves by a loss or a batch a function that a loop calls."""
    if next(inner_loops(function, leave.order), None) is not None:
        return True
    return (
        bool(origin.made)
        and leave.form == "return"
        and any(site.loops or site.name.endswith("Engine") for _, site in graph.callers.get(function.id, ()))
    )


def _swallowed(graph: CallGraph, function: Function, leave: Exit) -> Iterator[Finding]:
    handler = next((guard for guard in reversed(leave.guards) if guard.form == "except"), None)
    if handler is None or any(word in handler.test for word in _HARMLESS):
        return
    loop = next(inner_loops(function, leave.order), None)
    if loop is None or leave.since < loop.order:
        if loop is None and function.id in graph.repeated and leave.form == "swallow":
            yield from _given_up(graph, function, leave, handler)
        return
    lost = [call for call in _tried(function, leave) if leads_to_backward(graph, call) is not None]
    if not lost or any(
        handler in call.guards and leads_to_backward(graph, call) is not None for call in function.calls
    ):
        return  # DDP733 names a backward in the handler
    yield code_finding(
        RULE,
        f"`except {handler.test}`: a rank whose step fails goes on to the next batch, and the others wait for it in the "
        f"backward of line {lost[0].place.line}".replace("except `", "except`"),
        leave.place,
        lost[0].place,
        *(each.place for each in function.exits if each is not leave and handler in each.guards),
        remedy="let the exception end the job, or all_reduce a flag that says whether any rank failed before the next step",
        measured={"collective": "backward"},
    )


def _given_up(graph: CallGraph, function: Function, leave: Exit, handler: Guard) -> Iterator[Finding]:
    """A function whose own work may fail on one rank before a collective, and that then gives back something else."""
    if any(handler in call.guards and leads_to_collective(graph, call) is not None for call in function.calls):
        return  # DDP733 names it
    tried = {call.id: call for call in _tried(function, leave)}
    missed = next((each for call in tried.values() if (each := leads_to_collective(graph, call)) is not None), None)
    steps = [step for step in unfolded(graph, function) if isinstance(step.first, Call) and step.first.id in tried]
    before = list(takewhile(lambda step: missed is None or step.item is not missed.call, steps))
    if missed is None or len(before) == len(steps) or on_all_ranks(graph, function) is not True:
        return
    if not any(isinstance(step.item, Call) and step.item.does in _MAY_FAIL for step in before):
        return
    yield code_finding(
        RULE,
        f"`except {handler.test}`: a rank whose own work fails goes on without {short(missed.call)} of line "
        f"{missed.call.place.line}, in which the others wait for it",
        leave.place,
        missed.call.place,
        remedy="let the exception end the job, or all_reduce a flag that says whether any rank failed before the collective",
        measured={"collective": short(missed.call)},
    )


def _tried(function: Function, leave: Exit) -> Iterator[Call]:
    for call in function.calls:
        if leave.since < call.order < leave.order and not any(guard.form == "except" for guard in call.guards):
            yield call
