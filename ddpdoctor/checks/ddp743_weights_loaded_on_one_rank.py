"""DDP743: weights are loaded, or written, after wrapping, on some ranks only."""

from __future__ import annotations

from collections.abc import Iterator

from ddpdoctor.analysis.training_code.all_ranks import guarded_with_caller
from ddpdoctor.analysis.training_code.branches import answered_elsewhere
from ddpdoctor.analysis.training_code.call_graph import CallGraph
from ddpdoctor.analysis.training_code.guards import rank_guard
from ddpdoctor.analysis.training_code.later_calls import leads_to_backward
from ddpdoctor.analysis.training_code.models_and_loaders import stepped
from ddpdoctor.analysis.training_code.partial_writes import (
    is_given_back,
    left_out,
    reaches_the_others,
    wrapped_weights,
)
from ddpdoctor.analysis.training_code.reached_collectives import leads_to_collective
from ddpdoctor.analysis.training_code.several_ranks import runs_several
from ddpdoctor.analysis.training_code.training_turns import functions_that_train
from ddpdoctor.evidence.code_values import Kind, Origin, Value
from ddpdoctor.evidence.training_code import Call, Function, Guard
from ddpdoctor.messages import partial_writes
from ddpdoctor.messages.code_findings import code_finding, guarded, short
from ddpdoctor.model import Finding, Rule, Severity

RULE = Rule(
    code="DDP743",
    name="weights-loaded-on-one-rank",
    summary="weights are loaded or written on one rank after the model was wrapped: the other ranks train on with others",
    severity=Severity.FAIL,
    remedy="load or write on every rank, or before wrapping: the wrapper's constructor broadcasts rank 0's weights",
    leads_to=("DDP509",),
)

_COUNTS = frozenset(
    {"epoch", "epochs", "start_epoch", "step", "steps", "start_step", "global_step", "iter", "iteration", "start_iter", "start",
     "best", "best_acc", "best_acc1", "best_prec1", "best_top1", "best_loss", "best_val_loss", "best_score", "best_metric",
     "best_f1", "best_map", "best_miou", "best_epoch", "best_step"}
)  # fmt: skip
"""The names of what programs broadcast beside the weights."""
_AFTER_WRAPPING = ("on_train_", "on_validation_", "on_sanity_check_", "training_step", "validation_step")


def check(graph: CallGraph) -> Iterator[Finding]:
    """One finding for each such load, or write, that nothing broadcasts afterwards."""
    yield from _loaded(graph)
    yield from _written(graph)


def _written(graph: CallGraph) -> Iterator[Finding]:
    """Weights of a wrapped model that a statement writes on some ranks."""
    named = set[tuple[str, int]]()  # a loop over the parameters may write several times
    for function, write in graph.calls("write-weights"):
        wrapped = wrapped_weights(graph, function, write)
        for found in left_out(graph, function, write) if wrapped is not None else ():
            test = (found.guard.file, found.guard.line)
            if test in named or is_given_back(graph, found) or reaches_the_others(graph, found):
                continue
            named.add(test)
            yield partial_writes.finding(
                RULE, write, found, "writes weights of the wrapped model", "the other ranks keep theirs"
            )


def _loaded(graph: CallGraph) -> Iterator[Finding]:
    for function, call in graph.calls("load-state"):
        found = guarded_with_caller(graph, function, call) or _left_to_one(graph, function, call)
        if found is None or call.receiver is None:
            continue
        around, site, guard = found
        model = (
            call.receiver.may(Kind.WRAPPED, Kind.BARE)
            or stepped(graph, call.receiver)
            or _wrapped_before(function, call, call.receiver)
            or _wrapped_by_lightning(graph, function, call.receiver)
        )
        if model is None or answered_elsewhere(graph, around, site, guard):
            continue
        later = [other for other in function.calls if other is not call and other.order > call.order]
        later += [other for other in around.calls if other.order > site.order]
        if any(_shares(graph, other) or other.does == "wrap-ddp" for other in later):
            continue
        wrap = graph.made[model.made][1] if model.made in graph.made else None
        after = "" if model.kind is Kind.OBJECT else ", after it was wrapped"
        yield code_finding(
            RULE,
            f"`{call.receiver.text}` is loaded {guarded(guard)}{after}: the other ranks keep their "
            f"{'weights' if after else 'state'}",
            call.place,
            *([wrap.place] if wrap is not None else []),
            because=guard.by_rank,
            remedy=f"load on every rank: move line {call.place.line} "
            f"{'before' if guard.form == 'after' else 'out of'} `if {guard.test}`",
        )


def _left_to_one(graph: CallGraph, function: Function, call: Call) -> tuple[Function, Call, Guard] | None:
    """The test by which the other ranks have left the function before, and a call of it behind which all go on to train."""
    left = next((one for one in call.guards if one.form == "after" and one.by_rank and one.of_rank == "first"), None)
    sites = graph.callers.get(function.id, ()) if left is not None and not function.decorators else ()
    for caller, site in sites:
        if _trains_later(graph, caller, site):
            return (caller, site, left) if left is not None and not rank_guard(site.guards) else None
    return None


def _trains_later(graph: CallGraph, caller: Function, site: Call) -> bool:
    """Whether a backward follows behind a call, or another method trains what the constructor around the call makes."""
    cls, _, name = caller.id.rpartition(".")
    return any(each.order > site.order and leads_to_backward(graph, each) is not None for each in caller.calls) or (
        name == "__init__" and any(each.startswith(f"{cls}.") for each in functions_that_train(graph))
    )


def _wrapped_before(function: Function, call: Call, receiver: Value) -> Origin | None:
    """The model by its own name, where the function has wrapped it before."""
    model = receiver.only(Kind.MODEL)
    wraps = (each for each in function.calls if each.does == "wrap-ddp" and each.order < call.order)
    inner = (each.argument("module", 0) for each in wraps)
    wrapped = any(one is not None and model is not None and model.made in one.made for one in inner)
    return model if wrapped else None


def _wrapped_by_lightning(graph: CallGraph, function: Function, receiver: Value) -> Origin | None:
    """A part of a LightningModule in one of its hooks that run after the Trainer has wrapped it."""
    after = function.hook == "lightning" and function.place.function.rpartition(".")[2].startswith(_AFTER_WRAPPING)
    own = receiver.text.startswith("self.") and after and runs_several(graph, function, "lightning")
    return receiver.only(Kind.MODEL) if own else None


def _shares(graph: CallGraph, call: Call) -> bool:
    reached = leads_to_collective(graph, call)
    if reached is None or not short(reached.call).startswith(("broadcast", "_broadcast", "_sync")):
        return False
    given = reached.call.argument("tensor", 0)
    return given is None or given.text.rpartition(".")[2].lower().removesuffix("_tensor") not in _COUNTS
