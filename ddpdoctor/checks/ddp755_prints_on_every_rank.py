"""DDP755: every rank prints, or shows a progress bar, in the training loop."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from ddpdoctor.analysis.training_code.all_ranks import on_all_ranks
from ddpdoctor.analysis.training_code.call_graph import CallGraph
from ddpdoctor.analysis.training_code.frameworks import DOES_THE_DEVICE
from ddpdoctor.analysis.training_code.guards import may_ask_for_rank
from ddpdoctor.analysis.training_code.inlined_steps import InlinedStep
from ddpdoctor.analysis.training_code.several_ranks import started_by_ignite
from ddpdoctor.analysis.training_code.training_turns import TrainingTurn, training_turns
from ddpdoctor.evidence.code_values import RANK_KINDS
from ddpdoctor.evidence.training_code import Call, Function, Guard, Loop
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
_SHOWN = frozenset({"print", "progress"})
_OF_THE_ENGINE = re.compile(r"\.state\.(?:iteration|epoch|output)\b")


def check(graph: CallGraph) -> Iterator[Finding]:
    """One finding for each function that shows something on all ranks in each turn of a training loop."""
    reported: set[str] = set()
    for turn in training_turns(graph):
        if on_all_ranks(graph, turn.function) is not True:
            continue
        if graph.any_program(turn.function, (*DOES_THE_DEVICE - _LEAVES_PRINTS, "setup_for_distributed", "print=")):
            continue
        for step in [*_bars(graph, turn), *turn.steps]:
            shown = step.item
            if type(shown) is Call and shown.does in _SHOWN and step.owner.id not in reported and _shows(turn, step):
                reported.add(step.owner.id)
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
        shown = next((call for call in graph.calls_of(function, "print") if not any(map(_picks, call.guards))), None)
        states = [argument.value.text for argument in shown.arguments] if shown is not None else []
        if any(_OF_THE_ENGINE.search(text) for text in states) and started_by_ignite(graph, function):
            assert shown is not None
            yield code_finding(
                RULE, f"every rank shows a line of its own in a handler of the engine: {shown.text}", shown.place
            )


def _bars(graph: CallGraph, turn: TrainingTurn) -> list[InlinedStep]:
    """The progress bars that a loop goes over, or that are made for the steps and that no loop goes over."""
    bars = [call for call in graph.calls_of(turn.function, "progress") if not _is_gone_over(turn.function.loops, call)]
    mine = [call for call in bars if call.order < turn.loop.order and len(call.loops) == len(turn.loop.loops)]
    return [
        InlinedStep(call, turn.function, ())
        for call in graph.calls_of(turn.function, "progress")
        if _is_gone_over((turn.loop,), call) or (call in mine and _is_sized(call))
    ]


def _is_gone_over(loops: Iterable[Loop], bar: Call) -> bool:
    return any(loop.place.line == bar.place.line or bar.id in loop.over.made for loop in loops)


def _is_sized(bar: Call) -> bool:
    """Whether a bar is given a length."""
    over = bar.argument("iterable", 0)
    return bar.argument("total") is not None or (over is not None and over.text.startswith("range("))


def _shows(turn: TrainingTurn, step: InlinedStep) -> bool:
    """Whether all ranks print a line, or show a bar, whenever the turn comes there."""
    shown = step.item
    assert isinstance(shown, Call)
    if shown.does == "progress" and step.call_path:
        return False
    if shown.does == "print" and step.loops[-1:] != (turn.loop.order,):
        return False
    if not turn.single and any(inner.guards for inner in (*step.call_path, shown)[1:]):
        return False  # it may be shown in some epochs alone
    if shown.argument("disable") is not None or shown.argument("**") is not None:
        return False
    of_rank = (one.value.may(*RANK_KINDS) or "rank" in one.value.text for one in shown.arguments)
    return not any(of_rank) and not any(map(_picks, step.all_guards)) and not _ends_the_job(step.owner, shown)


def _picks(guard: Guard) -> bool:
    """Whether a test picks a rank: by its number, by what only one rank is given, or by a value that a warning is about."""
    if guard.by_rank or may_ask_for_rank(guard) or guard.form == "except" or guard.test.endswith("is not None"):
        return True
    return guard.form == "if" and guard.by_local is not None


def _ends_the_job(function: Function, call: Call) -> bool:
    """Whether a rank prints a line before it ends the job."""
    return bool(call.guards) and any(
        leave.fails and leave.order > call.order and leave.guards == call.guards for leave in function.exits
    )
