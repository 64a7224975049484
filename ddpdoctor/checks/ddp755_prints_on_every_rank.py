"""DDP755: every rank prints, or shows a progress bar, in the training loop."""

from __future__ import annotations

import re
from collections.abc import Iterator

from ddpdoctor.analysis.training_code.all_ranks import on_all_ranks
from ddpdoctor.analysis.training_code.call_graph import CallGraph
from ddpdoctor.analysis.training_code.frameworks import DOES_THE_DEVICE
from ddpdoctor.analysis.training_code.guards import inner_loops, may_ask_for_rank
from ddpdoctor.analysis.training_code.later_calls import backward_in, reduces_gradients
from ddpdoctor.analysis.training_code.several_ranks import started_by_ignite
from ddpdoctor.evidence.code_values import RANK_KINDS
from ddpdoctor.evidence.training_code import Call, Function
from ddpdoctor.messages.code_findings import code_finding
from ddpdoctor.model import Finding, Rule, Severity

RULE = Rule(
    code="DDP755",
    name="prints-on-every-rank",
    summary="every rank prints in the training loop: the lines of all ranks are mixed",
    severity=Severity.INFO,
    remedy="print on rank 0 only: `if dist.get_rank() == 0:`; of tqdm `disable=dist.get_rank() != 0`",
)

_LEAVES_PRINTS = frozenset({"accelerate", "fabric", "deepspeed"})
"""Frameworks that leave `print` and bars as they are where the program writes the loop itself."""
_OF_THE_ENGINE = re.compile(r"\.state\.(?:iteration|epoch|output)\b")


def check(graph: CallGraph) -> Iterator[Finding]:
    """One finding for each function that trains the wrapped model and prints beside it on all ranks."""
    for function in graph.functions.values():
        steps = [call for call in graph.calls_of(function, "backward") if reduces_gradients(graph, call)]
        steps += [call for call in function.calls if call.target and call.loops and _makes_a_step(graph, call)]
        if not steps or on_all_ranks(graph, function) is not True:
            continue
        if graph.any_program(function, DOES_THE_DEVICE - _LEAVES_PRINTS):
            continue
        shows = (call for call in graph.calls_of(function, "print", "progress") if _shows(call))
        shown = next((call for call in shows if _beside(graph, function, call, steps)), None)
        if shown is not None and _ends_the_job(function, shown):
            continue
        if shown is not None and not graph.any_program(function, ("setup_for_distributed", "print=")):
            what = "a progress bar" if shown.does == "progress" else "a line"
            yield code_finding(
                RULE,
                f"every rank shows {what} of its own in the training loop: {shown.text}",
                shown.place,
                remedy="add `disable=dist.get_rank() != 0`" if shown.does == "progress" else None,
            )
    yield from _in_handlers(graph)


def _in_handlers(graph: CallGraph) -> Iterator[Finding]:
    """One finding for each handler of an engine of Ignite that shows on all ranks where the engine stands."""
    for function in graph.functions.values():
        if not any(name.endswith(".on") for name in function.decorators) or function.guards:
            continue
        shown = next((call for call in function.calls if call.does == "print" and _shows(call)), None)
        states = [argument.value.text for argument in shown.arguments] if shown is not None else []
        if any(_OF_THE_ENGINE.search(text) for text in states) and started_by_ignite(graph, function):
            assert shown is not None
            yield code_finding(
                RULE, f"every rank shows a line of its own in a handler of the engine: {shown.text}", shown.place
            )


def _makes_a_step(graph: CallGraph, call: Call) -> bool:
    """Whether a call makes one training step, in a function of its own."""
    held = backward_in(graph, call.target)
    return held is not None and not held.call.loops and reduces_gradients(graph, held.call)


def _shows(call: Call) -> bool:
    if any(guard.by_rank or may_ask_for_rank(guard) or guard.form == "except" for guard in call.guards):
        return False
    if any(guard.test.endswith("is not None") for guard in call.guards):
        return False  # what only one rank is given
    if any(guard.form == "if" and guard.by_local for guard in call.guards):
        return False  # a warning of the rank that it concerns
    if call.argument("disable") is not None or call.argument("**") is not None:
        return False
    return not any(argument.value.may(*RANK_KINDS) or "rank" in argument.value.text for argument in call.arguments)


def _counts_steps(bar: Call, steps: list[Call]) -> bool:
    """Whether a bar of a given length, over which no loop goes, is made for the loop over the steps."""
    over = bar.argument("iterable", 0)
    sized = bar.argument("total") is not None or (over is not None and over.text.startswith("range("))
    return sized and any(step.loops and step.order > bar.order and step.loops[0] not in bar.loops for step in steps)


def _ends_the_job(function: Function, call: Call) -> bool:
    """Whether a rank prints a line before it ends the job."""
    return bool(call.guards) and any(
        leave.fails and leave.order > call.order and leave.guards == call.guards for leave in function.exits
    )


def _beside(graph: CallGraph, function: Function, call: Call, steps: list[Call]) -> bool:
    """Whether it is in the loop over the epochs or the batches, or is what the latter goes over."""
    loop = next(inner_loops(function, call.order), None)
    if loop is None and call.does == "print":  # a function that makes one step, and that a loop calls
        called = any(way.loops for _, way in graph.callers.get(function.id, ()))
        return called and any(not step.loops for step in steps)
    loops = {order for step in steps for order in step.loops}
    if call.does == "progress":
        shown = [loop for loop in function.loops if loop.place.line == call.place.line or call.id in loop.over.made]
        return any(each.order in loops for each in shown) or (not shown and _counts_steps(call, steps))
    return loop is not None and loop.order in loops
