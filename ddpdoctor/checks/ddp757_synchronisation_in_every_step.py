"""DDP757: every training step waits for all ranks or for the GPU without need."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ddpdoctor.analysis.training_code.call_graph import CallGraph
from ddpdoctor.analysis.training_code.collective_calls import COLLECTIVE
from ddpdoctor.analysis.training_code.inlined_steps import InlinedStep, calls_in, unfolded
from ddpdoctor.analysis.training_code.later_calls import backwards_of
from ddpdoctor.analysis.training_code.reached_collectives import CallOfAllRanks, leads_to_collective
from ddpdoctor.analysis.training_code.training_turns import TrainingTurn, training_turns
from ddpdoctor.evidence.code_values import Kind
from ddpdoctor.evidence.training_code import Call, Function
from ddpdoctor.messages.code_findings import code_finding, short
from ddpdoctor.model import Finding, Rule, Severity

RULE = Rule(
    code="DDP757",
    name="synchronisation-in-every-step",
    summary="a barrier, torch.cuda.synchronize or a reduced loss in every training step: ranks wait for each other without need",
    severity=Severity.INFO,
    remedy="drop it, or do it every 100 steps: `if step % 100 == 0:`",
)

_SHOWS = frozenset({"log", "print", "write", "collective", "synchronize", "read"})
"""What a step may do with a reduced loss that does not need it."""
_ASKS = frozenset({"ask", "synchronize", "print", "log", "write", "read"})
"""What a function may do beside its barrier."""
_AVERAGE = frozenset({"all_reduce", "reduce", "all_gather", "gather", "all_gather_object", "gather_object"})


def check(graph: CallGraph) -> Iterator[Finding]:
    """One finding for each such call in a training step, and for the first read of a loss in a function."""
    read: set[str] = set()
    reported: set[str] = set()
    for turn in training_turns(graph):
        for step in turn.steps if turn.single else ():
            call = step.item
            if type(call) is not Call or call.id in reported or not _every_turn(turn, step):
                continue
            reads = call.does == "read" and step.owner.id not in read and _reads_loss(call)
            if not reads and call.does != "synchronize" and not _waits(graph, step):
                continue
            reported |= {call.id, *(inner.id for inner in _inside(graph, call))}
            read |= {step.owner.id} if reads else set()
            yield code_finding(
                RULE,
                f"{call.text} in every training step: Python waits there until the GPU has computed the loss"
                if reads
                else f"{short(call)} in every training step: each rank waits there for nothing that the step needs",
                call.place,
                remedy="add up `loss.detach()`, and read the sum every 100 steps" if reads else None,
            )


def _every_turn(turn: TrainingTurn, step: InlinedStep) -> bool:
    """Whether every turn of a loop makes a call, whatever stands around the loop."""
    around = step.loops[-1:] == (turn.loop.order,)
    return around and all(
        guard.state or guard.form == "while" or guard in turn.loop.guards for guard in step.all_guards
    )


def _waits(graph: CallGraph, step: InlinedStep) -> bool:
    """Whether a call is a barrier, or averages a loss that only a log can use."""
    call, backwards = step.item, backwards_of(graph, step.owner)
    assert isinstance(call, Call)
    reached = leads_to_collective(graph, call) if backwards and (call.does in COLLECTIVE or call.target) else None
    if reached is None:
        return False
    return _is_barrier(graph, call, reached) or _of_shown_loss(step.owner, call, reached.call, backwards)


def _inside(graph: CallGraph, call: Call) -> list[Call]:
    """The calls of the function that a call calls, and of those that it calls."""
    inner = graph.functions.get(call.target)
    return [each for _, _, each in calls_in(unfolded(graph, inner))] if inner is not None else []


def _reads_loss(call: Call) -> bool:
    """Whether a call reads what a forward gave, which the GPU may still be computing."""
    given = call.receiver
    return given is not None and not given.may(Kind.SHARED) and any(one.note == "forward" for one in given.origins)


def _is_barrier(graph: CallGraph, call: Call, reached: CallOfAllRanks) -> bool:
    """Whether a call is a barrier, or one of a function of the program that does nothing else for the ranks."""
    if short(reached.call) != "barrier":
        return False
    return all(each is reached.call or each.does in _ASKS or each.target for each in _inside(graph, call))


def _of_shown_loss(function: Function, call: Call, made: Call, steps: Sequence[Call]) -> bool:
    """Whether the collective that a call makes averages the loss after its backward, so that only a log can use it."""
    given = made.argument("tensor", 0) if short(made) in _AVERAGE else None
    loss = given.may(Kind.LOCAL) if given is not None else None
    if given is None or loss is None or loss.note != "forward" or made.argument("async_op") is not None:
        return False
    if not any(step.order < call.order for step in steps):
        return False
    guards = [guard for leave in function.exits for guard in leave.guards]
    guards += [guard for each in function.calls if each.loops[: len(call.loops)] == call.loops for guard in each.guards]
    asked = {given.text, *(text for _, text in call.given)}
    if any(not asked.isdisjoint(guard.names) for guard in guards):
        return False
    values = [guard.value for guard in guards]
    values += [one.value for each in function.calls if each.does not in _SHOWS for one in each.arguments]
    return not any(origin.kind is Kind.SHARED for value in values for origin in value.origins)
