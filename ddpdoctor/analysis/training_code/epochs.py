"""Epoch loops: in which loop a sampler's data are gone over again and again, and who tells the sampler the epoch."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from ddpdoctor.analysis.training_code.call_graph import CallGraph
from ddpdoctor.analysis.training_code.guards import inner_loops
from ddpdoctor.evidence.code_values import Kind, Origin, Value
from ddpdoctor.evidence.training_code import Call, Function, Loop

MOST_CALLS = 4  # functions between the epoch loop and the loop over the batches


@dataclass(frozen=True, slots=True)
class EpochLoop:
    """A loop over epochs, and the loop over a loader that it leads to."""

    epochs: Loop
    """The outer loop."""
    function: Function
    """The function in which the outer loop stands."""
    batches: Loop
    """The inner loop, over a loader."""
    within: Function
    """The function in which the inner loop stands: `function`, or one that it calls."""
    inner: int
    """The place in `function` where the batches begin: the inner loop, or the call that leads to it."""
    through: Value
    """The loader that is gone over."""

    @property
    def counter(self) -> str:
        """The variable that counts the epochs: `epoch` of `for epoch in range(10)`."""
        words = self.epochs.head.split()
        return words[1].strip("(),") if len(words) > 1 and words[0] == "for" else "epoch"


def loaders_of(graph: CallGraph, sampler: Call) -> frozenset[str]:
    """The ids of the loaders that draw through a sampler."""

    def find() -> frozenset[str]:
        return frozenset(
            loader.id
            for _, loader in graph.taken_by(sampler.id)
            if loader.does == "loader"
            for name, position in (("sampler", 3), ("batch_sampler", 4))
            if (given := loader.argument(name, position)) is not None and sampler.id in given.made
        )

    return graph.once(("loaders of", sampler.id), find)


def epoch_loop(graph: CallGraph, sampler: Call) -> EpochLoop | None:
    """The loop in which a sampler's data are gone over more than once; None where there is none for certain."""
    return graph.once(("epoch loop", sampler.id), lambda: _epoch_loop(graph, sampler))


def _epoch_loop(graph: CallGraph, sampler: Call) -> EpochLoop | None:
    for loader in sorted(loaders_of(graph, sampler)):
        for function, loop in graph.loops_over(loader):
            origin = loop.over.may(Kind.LOADER)
            if origin is None or origin.made != loader or origin.note == "prepared" or evaluates(graph, function, loop):
                continue
            found = next(_around(graph, function, loop, origin, function, loop.order, MOST_CALLS), None)
            if found is not None:
                return found
    return None


def evaluates(graph: CallGraph, function: Function, loop: Loop) -> bool:
    """Whether a loop over batches is there to evaluate: the order of its batches does not matter."""
    names = (*function.decorators, *(context.name for context in loop.contexts))
    if any(name.endswith(("no_grad", "inference_mode")) for name in names):
        return True
    if any(loop.order < call.order <= loop.last_order for call in graph.calls_of(function, "backward")):
        return False
    if re.search(r"(?i)eval|valid|test|predict|infer", function.place.function):
        return True
    last = [call for call in graph.calls_of(function, "eval", "train") if call.order < loop.order]
    return bool(last) and last[-1].does == "eval"


def _around(
    graph: CallGraph, within: Function, batches: Loop, loader: Origin, function: Function, order: int, calls: int
) -> Iterator[EpochLoop]:
    for outer in inner_loops(function, order):
        if outer is batches:
            continue
        if outer.over.may(Kind.LOADER):
            return
        if outer.counts and outer.turns != 1:
            yield EpochLoop(outer, function, batches, within, order, batches.over)
            return
    if calls:
        for caller, call in graph.callers.get(function.id, ()):
            if caller.id != function.id and _gives(graph, function, call, loader):
                yield from _around(graph, within, batches, loader, caller, call.order, calls - 1)


def _gives(graph: CallGraph, function: Function, call: Call, loader: Origin) -> bool:
    """Whether a call of a function gives it this loader, where another one certainly does: `steps(model, warmup)`."""
    links = {(link.file, link.line): link.text.partition(" ")[0] for link in loader.why}
    giving = [one for _, one in graph.callers[function.id] if (one.place.file, one.place.line) in links]
    names = {links[one.place.file, one.place.line] for one in giving}
    given = [[dict(one.given).get(name) for name in names] for one in giving]
    return not giving or [dict(call.given).get(name) for name in names] in given


def told_the_epoch(graph: CallGraph, function: Function, sampler: Call) -> Call | None:
    """A call of set_epoch that this sampler gets, or may get; None where there is none for certain."""
    loaders = loaders_of(graph, sampler)
    for made in (sampler.id, *sorted(loaders)):
        for _, call in graph.taken_by(made):
            if call.does == "set-epoch" and call.receiver is not None and made in call.receiver.made:
                return call
    return next((call for _, call in graph.calls_near(function, "set-epoch") if _may_be_any(call)), None)


def _may_be_any(call: Call) -> bool:
    return call.receiver is None or call.receiver.may(Kind.SAMPLER, Kind.LOADER, Kind.DATASET) is None


def told_in_place_of(graph: CallGraph, function: Function, loop: EpochLoop) -> Call | None:
    """A call of set_epoch in the epoch loop on a sampler that no loader draws through, or that does not shuffle."""
    for _, call in graph.calls_near(function, "set-epoch"):
        if loop.epochs.order not in call.loops or call.place.file != loop.epochs.place.file:
            continue
        made = [graph.made[each][1] for each in (call.receiver.made if call.receiver else ()) if each in graph.made]
        if made and all(each.does == "sampler" for each in made) and not any(_draws(graph, one) for one in made):
            return call
    return None


def shuffles(sampler: Call) -> bool:
    """Whether a sampler may give its data in another order in every epoch."""
    given = sampler.argument("shuffle", 3)
    return given is None or given.constant != "False"


def shuffles_for_certain(sampler: Call) -> bool:
    """Whether a sampler shuffles, or one of those that a call makes for several parts of the data: `shuffle=part == "train"`."""
    given = sampler.argument("shuffle", 3)
    literals = given is not None and all(one.kind is Kind.CONSTANT for one in given.origins)
    return given is None or (literals and any(one.text == "True" for one in given.origins))


def _draws(graph: CallGraph, sampler: Call) -> bool:
    """Whether a loader draws through a sampler that the epoch matters to."""
    return bool(loaders_of(graph, sampler)) and shuffles(sampler)
