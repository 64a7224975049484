"""DDP769: the optimizer, or the schedule of its learning rate, steps on some ranks only, or they get other settings."""

from __future__ import annotations

from collections.abc import Iterator

from ddpdoctor.analysis.training_code.all_ranks import guarded_with_caller
from ddpdoctor.analysis.training_code.branches import may_be_made_by_others
from ddpdoctor.analysis.training_code.call_graph import CallGraph
from ddpdoctor.analysis.training_code.later_calls import reduces_by_hand
from ddpdoctor.analysis.training_code.local_values import own_test, own_value
from ddpdoctor.analysis.training_code.models_and_loaders import stepped
from ddpdoctor.analysis.training_code.partial_writes import left_out, settings_of_wrapped
from ddpdoctor.evidence.code_values import RANK_KINDS, Kind
from ddpdoctor.evidence.training_code import Call, Function, Guard
from ddpdoctor.messages import partial_writes
from ddpdoctor.messages.code_findings import alike, code_finding, guarded, of_this_rank, out_of
from ddpdoctor.model import Finding, Rule, Severity

RULE = Rule(
    code="DDP769",
    name="step-on-some-ranks",
    summary="the optimizer or its schedule steps, or is set, under a test of the rank or of its own loss: the weights part",
    severity=Severity.FAIL,
    remedy="step on every rank: after the backward all ranks hold the same gradients",
    leads_to=("DDP510", "DDP506"),
)
_SCHEDULES = frozenset({"schedule", "plateau"})


def check(graph: CallGraph) -> Iterator[Finding]:
    """One finding for each such step, or setting, of the optimizer of a wrapped model's parameters."""
    yield from _steps(graph)
    named = set[tuple[str, int]]()  # a branch may set several
    for function, write in graph.calls("write-setting"):
        if settings_of_wrapped(graph, write):
            yield from _settings(graph, function, write, named)


def _settings(graph: CallGraph, function: Function, write: Call, named: set[tuple[str, int]]) -> Iterator[Finding]:
    """Settings that some ranks alone change, or that hold the rank or a loss of this rank."""
    given = write.arguments[0].value
    held = next((one for one in given.origins if one.kind in RANK_KINDS and one.note != "uncertain"), None)
    held = held or own_value(graph, function, given)
    if held is not None and held.kind in RANK_KINDS | {Kind.LOCAL}:
        what = f"its own {of_this_rank(held)}" if held.kind is Kind.LOCAL else "its number"
        yield code_finding(
            RULE,
            f"each rank sets `{write.text}` by {what}: the ranks step differently, and their weights part",
            write.place,
            because=held,
            remedy=f"give every rank the same value for `{write.text}`: all_reduce it, or broadcast that of rank 0",
        )
        return
    for found in left_out(graph, function, write):
        test = (found.guard.file, found.guard.line)
        if test in named:
            continue
        named.add(test)
        yield partial_writes.finding(
            RULE, write, found, "is set", "the other ranks step differently, and the weights part"
        )


def _steps(graph: CallGraph) -> Iterator[Finding]:
    """Steps on some ranks, where the backward is not under the same test."""
    for function, call in graph.calls("step"):
        what = _stepped_by(graph, call)
        if not what:
            continue
        ranked = guarded_with_caller(graph, function, call)
        if ranked is not None:
            around, site, guard = ranked
            if not _is_left_to_others(graph, around, guard) and not reduces_by_hand(graph, around, site):
                yield code_finding(
                    RULE,
                    f"`{call.text}` stands {guarded(guard)}: the other ranks {what}",
                    call.place,
                    because=guard.by_rank,
                    remedy=out_of(guard, site.place.line),
                )
        elif (own := own_test(graph, function, call.guards)) and not _is_left_to_others(graph, function, own[0]):
            guard, origin = own
            yield code_finding(
                RULE,
                f"`{call.text}` stands {guarded(guard)}, which each rank decides by its own {of_this_rank(origin)}: "
                f"the ranks that do not take the branch {what}",
                call.place,
                because=origin,
                remedy=alike(guard, origin),
            )


def _stepped_by(graph: CallGraph, call: Call) -> str:
    """What ranks miss that do not make this step of a wrapped model's optimizer, or of its schedule; empty of other calls."""
    first = call.argument("optimizer", 0)
    if any(given is not None and stepped(graph, given) for given in (call.receiver, first)):
        return "keep their weights"
    made = [
        graph.made[made][1] for made in (call.receiver.made if call.receiver is not None else ()) if made in graph.made
    ]
    optimizers = [one.argument("optimizer", 0) for one in made if one.does in _SCHEDULES]
    schedules = bool(optimizers) and all(each is not None and stepped(graph, each) for each in optimizers)
    return "keep their learning rate" if schedules else ""


def _is_left_to_others(graph: CallGraph, function: Function, guard: Guard) -> bool:
    """Whether the others may step elsewhere, or the test decides about the forward or backward, too: DDP730 is about those."""
    beside = graph.calls_of(function, "forward", "backward")
    return any(guard in call.guards for call in beside) or may_be_made_by_others(function, "step", guard)
