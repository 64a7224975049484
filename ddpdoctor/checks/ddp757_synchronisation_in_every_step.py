"""DDP757: every training step waits for all ranks or for the GPU without need."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ddpdoctor.analysis.training_code.call_graph import CallGraph
from ddpdoctor.analysis.training_code.guards import inner_loops
from ddpdoctor.analysis.training_code.later_calls import backwards_of, passes_over_batches, reduces_gradients
from ddpdoctor.analysis.training_code.models_and_loaders import stepped
from ddpdoctor.analysis.training_code.reached_collectives import CallOfAllRanks, collectives_of
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
    """One finding for each such call beside a backward of the wrapped model, and for the first read of a loss."""
    for function in graph.functions.values():
        backwards = backwards_of(graph, function)
        steps = [*backwards, *(call for call in graph.calls_of(function, "step") if _steps(graph, call))]
        passes = {target for target in {call.target for call in steps} if passes_over_batches(graph, target)}
        single = [call for call in steps if call.target not in passes or reduces_gradients(graph, call)]
        read = False
        for call, reached in _waits(graph, function) if single else ():
            reads = not read and call.does == "read" and _reads_loss(call)
            waits = reads or call.does == "synchronize"
            if reached is not None:
                waits |= _is_barrier(graph, call, reached) or _of_shown_loss(function, call, reached.call, backwards)
            if waits and _every_step(graph, function, call, single):
                read |= reads
                yield code_finding(
                    RULE,
                    f"{call.text} in every training step: Python waits there until the GPU has computed the loss"
                    if reads
                    else f"{short(call)} in every training step: each rank waits there for nothing that the step needs",
                    call.place,
                    remedy="add up `loss.detach()`, and read the sum every 100 steps" if reads else None,
                )


def _waits(graph: CallGraph, function: Function) -> list[tuple[Call, CallOfAllRanks | None]]:
    """The calls of a function that may wait, for the GPU or for other ranks: these with the collective that each leads to."""
    found: list[tuple[Call, CallOfAllRanks | None]] = [*collectives_of(graph, function)]
    found += ((call, None) for call in graph.calls_of(function, "read", "synchronize"))
    return sorted(found, key=lambda each: each[0].order)


def _steps(graph: CallGraph, call: Call) -> bool:
    """Whether a step is one of the optimizer of what was wrapped."""
    return call.receiver is not None and stepped(graph, call.receiver) is not None


def _reads_loss(call: Call) -> bool:
    """Whether a call reads what a forward gave, which the GPU may still be computing."""
    given = call.receiver
    return given is not None and not given.may(Kind.SHARED) and any(one.note == "forward" for one in given.origins)


def _is_barrier(graph: CallGraph, call: Call, reached: CallOfAllRanks) -> bool:
    """Whether a call is a barrier, or one of a function of the program that does nothing else for the ranks."""
    if short(reached.call) != "barrier":
        return False
    inner = graph.functions.get(call.target)
    return inner is None or all(each is reached.call or each.does in _ASKS for each in inner.calls)


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


def _every_step(graph: CallGraph, function: Function, call: Call, steps: list[Call]) -> bool:
    loop = next(inner_loops(function, call.order), None)
    if any(not guard.state and guard.form != "while" for guard in call.guards):
        return False
    if loop is None:  # a function that makes one step, and that a loop calls
        return any(not step.loops for step in steps) and graph.is_called_in_a_loop(function)
    if any(step.loops[-1:] == (loop.order,) for step in steps):
        return True
    optimizer = any(
        each.loops[-1:] == (loop.order,) and each.receiver is not None and "opt" in each.receiver.text
        for each in graph.calls_of(function, "step")
    )
    return optimizer and any(loop.order in step.loops for step in steps)  # a loop over micro-batches is in the step
