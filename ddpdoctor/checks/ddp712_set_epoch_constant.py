"""DDP712: set_epoch is called, but with a number that never changes, too late, or on another sampler."""

from __future__ import annotations

import re
from collections.abc import Iterator

from ddpdoctor.analysis.training_code.call_graph import CallGraph
from ddpdoctor.analysis.training_code.epochs import (
    EpochLoop,
    epoch_loop,
    loaders_of,
    shuffles,
    shuffles_for_certain,
    told_in_place_of,
    told_the_epoch,
)
from ddpdoctor.analysis.training_code.frameworks import DOES_THE_DATA
from ddpdoctor.analysis.training_code.guards import inner_loops
from ddpdoctor.evidence.code_values import Kind, Value
from ddpdoctor.evidence.training_code import Call, Function
from ddpdoctor.messages.code_findings import code_finding
from ddpdoctor.model import Finding, Rule, Severity

RULE = Rule(
    code="DDP712",
    name="set-epoch-constant",
    summary="set_epoch is called in a way that leaves the order of the samples the same in several epochs",
    severity=Severity.WARN,
    remedy="call `sampler.set_epoch(epoch)` with the epoch's number, before the loop over the loader",
    leads_to=("DDP513",),
)

_PLAIN = re.compile(r"([A-Za-z_][\w.]*)(?: [+*-] \d+)?")
_OPTIONS = re.compile(r"(?:args?|opts?|options|config|cfg|conf|hparams|flags)$", re.IGNORECASE)
"""How the names end of objects that hold the options of a program."""


def check(graph: CallGraph) -> Iterator[Finding]:
    """One finding for each sampler whose only set_epoch calls are without effect."""
    for function, sampler in graph.calls("sampler"):
        if graph.any_program(function, DOES_THE_DATA) or not shuffles_for_certain(sampler):
            continue
        loop = epoch_loop(graph, sampler)
        if loop is None:
            continue
        other = told_in_place_of(graph, function, loop)
        if other is not None and loaders_of(graph, sampler) and told_the_epoch(graph, function, sampler) is None:
            yield _of_another_sampler(graph, sampler, loop, other)
        else:
            yield from _without_effect(graph, function, sampler, loop)


def _of_another_sampler(graph: CallGraph, sampler: Call, loop: EpochLoop, other: Call) -> Finding:
    """`other` tells the epoch to a sampler that the loader does not have."""
    made = [graph.made[each][1] for each in (other.receiver.made if other.receiver else ()) if each in graph.made]
    unused = "that no loader draws through"
    which = unused if all(map(shuffles, made)) else "that does not shuffle, and not on this one"
    return code_finding(
        RULE,
        f"set_epoch is called on a sampler {which}: `{loop.epochs.head}` sees the same order again",
        other.place,
        sampler.place,
        remedy="call it on the sampler that the loader has",
    )


def _without_effect(graph: CallGraph, function: Function, sampler: Call, loop: EpochLoop) -> Iterator[Finding]:
    """No call of `set_epoch` on this sampler gives it another number in each epoch."""
    known = {sampler.id, *loaders_of(graph, sampler)}
    mine = [
        call
        for _, call in graph.calls_near(function, "set-epoch")
        if call.receiver is None or not call.receiver.made or call.receiver.made & known
    ]
    reasons = [_reason(graph, loop, call) for call in mine]
    if mine and all(reasons):
        yield code_finding(
            RULE,
            f"{reasons[0]}: `{loop.epochs.head}` sees the same order again",
            mine[0].place,
            loop.epochs.place,
            *(each.place for each in mine[1:]),
            remedy=f"call it as `set_epoch({loop.counter})`, as the first line of `{loop.epochs.head}`",
        )


def _reason(graph: CallGraph, loop: EpochLoop, call: Call) -> str:
    """Why a call has no effect; empty where it has one, or where that is not known."""
    given = call.argument("epoch", 0)
    if given is not None and given.constant is not None:
        return f"set_epoch always gets {given.constant}"
    if _after_the_batches(graph, loop, call):
        return (
            f"set_epoch({given.text}) comes after the batches of the epoch, so that the first two epochs have one order"
            if given is not None
            else ""
        )
    same = call.place.file == loop.epochs.place.file and call.place.function == loop.epochs.place.function
    if not same or given is None:
        return ""
    inside = loop.epochs.order < call.order <= loop.epochs.last_order
    if inside and _stays_the_same(loop.function, call, given):
        return f"set_epoch({given.text}) gets the same number in every turn"
    if not inside and call.loops == loop.epochs.loops:
        return f"set_epoch({given.text}) is called once, outside of the loop over the epochs"
    last = max((each.last_order for each in loop.function.loops if each.order == loop.inner), default=loop.inner)
    around = next(inner_loops(loop.function, call.order), None)
    if around is loop.epochs and call.order > last and given.text == loop.counter:
        return (
            f"set_epoch({given.text}) comes after the batches of the epoch, so that the first two epochs have one order"
        )
    return ""


def _stays_the_same(function: Function, call: Call, given: Value) -> bool:
    """Whether none of the loops around a call assigns to what it is given: a name, or an option of the program."""
    named = _PLAIN.fullmatch(given.text)
    name = named[1] if named is not None else ""
    owner, _, option = name.partition(".")
    known = all(origin.kind is Kind.CONSTANT or origin.note == "argument" for origin in given.origins)
    declared = any(origin.note == "argument" for origin in given.origins)
    if not name or (option and not (known and (declared or _OPTIONS.search(owner)))):
        return False
    around = (each for each in function.loops if each.order in call.loops)
    return not any(name == key or name.startswith(f"{key}.") for each in around for key in each.binds)


def _after_the_batches(graph: CallGraph, loop: EpochLoop, call: Call) -> bool:
    """Whether a call follows the batches in the function that goes over them, which the epoch loop calls."""
    within, batches = loop.within, loop.batches
    given = call.argument("epoch", 0)
    if within.id == loop.function.id or call not in within.calls or given is None:
        return False
    if given.text not in within.parameters or given.text in within.rebound or not _is_given(graph, loop):
        return False
    before = (each for each in within.calls if each.does == "set-epoch" and each.order < batches.order)
    return call.order > batches.last_order and call.loops == batches.loops and next(before, None) is None


def _is_given(graph: CallGraph, loop: EpochLoop) -> bool:
    """Whether the epoch loop gives its counter as it is to the function that goes over the batches."""
    plainly = re.compile(rf"[(,=]\s*{re.escape(loop.counter)}\s*[,)]")
    sites = [site for caller, site in graph.callers.get(loop.within.id, ()) if caller.id == loop.function.id]
    return bool(sites) and all(plainly.search(site.text) for site in sites)
