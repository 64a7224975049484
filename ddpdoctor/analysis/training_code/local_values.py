"""Values that are certainly different on each rank: a clock, a loss over the rank's own data, a draw from its own generator."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from ddpdoctor.analysis.training_code.call_graph import CallGraph
from ddpdoctor.analysis.training_code.models_and_loaders import averaged_by_hand, is_sharded, trains
from ddpdoctor.analysis.training_code.seeds import drawn_apart, seeded_by_rank
from ddpdoctor.evidence.code_values import RANK_KINDS, Kind, Origin, Value
from ddpdoctor.evidence.training_code import Call, Function, Guard
from ddpdoctor.whole_numbers import whole_number

_OWN = frozenset({"clock", "queue", "own"})


def own_value(graph: CallGraph, function: Function, value: Value) -> Origin | None:
    """What makes a value in `function` differ between ranks for certain, or None."""
    if value.may(Kind.SHARED):
        return None
    local = [origin for origin in value.origins if origin.kind is Kind.LOCAL and not _is_alike(value, origin)]
    for origin in local:
        if (origin.made and origin.note != "draw") or origin.note in {"part", "length"}:
            continue
        drawn = origin.note == "draw" and drawn_apart(graph, function, generator_of(origin))
        return origin if drawn or origin.note in _OWN else None
    return next(
        (one for one in local if graph.once(("own", one.made, one.note), partial(_of_this_rank, graph, one))), None
    )


def own_test(graph: CallGraph, function: Function, guards: Sequence[Guard]) -> tuple[Guard, Origin] | None:
    """The test of a loss or a batch of this rank alone that decides about a line, and what makes its value; None without one."""
    for guard in guards:
        origin = own_value(graph, function, guard.value) if guard.form in {"if", "else"} and guard.by_local else None
        if origin is not None and origin.made:
            return guard, origin
    return None


def _is_alike(value: Value, origin: Origin) -> bool:
    """Whether a test asks only whether there is a time, or whether a list that takes losses has any."""
    texts = (value.text, *(link.text for link in origin.why))
    if origin.note == "clock":
        return not any(sign in text for text in texts for sign in "<>%")
    return bool(origin.why) and origin.why[0].text.startswith(f"{value.text.removeprefix('not ')} takes ")


def generator_of(origin: Origin) -> str:
    """The function that seeds the generator of a draw."""
    if origin.text.startswith("torch."):
        return "torch.manual_seed"
    return "numpy.random.seed" if origin.text.startswith(("np.", "numpy.")) else "random.seed"


def _of_this_rank(graph: CallGraph, origin: Origin) -> bool:
    """Whether an object is a loss of the wrapper, or a batch that the wrapper is trained with."""
    _, call = graph.made.get(origin.made, (None, None))
    if (
        call is not None
        and call.does == "loader"
        and (is_sharded(graph, call) or _has_own_data(graph, call) or _is_prepared(graph, call))
    ):
        return True
    if call is not None and _trains_the_wrapper(graph, call):
        return True
    if origin.note == "item":
        return any(
            _trains_the_wrapper(graph, taker) and _is_its_batch(function, taker, origin)
            for function, taker in graph.taken_by(origin.made)
        )
    takers = graph.taken_by(origin.made) if origin.note != "batch" else ()
    return any(_trains_the_wrapper(graph, taker) for _, taker in takers)


def _is_prepared(graph: CallGraph, loader: Call) -> bool:
    """Whether Accelerate's `prepare` or Fabric's `setup_dataloaders` gives each rank its part of what a loader reads."""
    return any(
        taker.does == "prepare"
        and any(whole_number(one.name) is not None and loader.id in one.value.made for one in taker.arguments)
        for _, taker in graph.taken_by(loader.id)
    )


def _has_own_data(graph: CallGraph, loader: Call) -> bool:
    """Whether the tensors that a loader's data set consists of are computed from the rank, or drawn after its seed."""
    dataset = loader.argument("dataset", 0)
    for made in dataset.made if dataset is not None else ():
        function, call = graph.made.get(made, (None, None))
        if function is None or call is None or not call.name.endswith("TensorDataset"):
            continue
        own = [argument.value for argument in call.arguments if not argument.value.may(Kind.SHARED)]
        for origin in (one for value in own for one in value.origins):
            if origin.kind in RANK_KINDS and origin.note != "uncertain":
                return True
            drawn = origin.kind is Kind.CPU_TENSOR and origin.text.startswith("torch.rand") and not origin.note
            taken = any(taker.does == "collective" for _, taker in graph.taken_by(origin.made)) if drawn else False
            if drawn and not taken and seeded_by_rank(function, origin.made):
                return True
    return False


def _is_its_batch(function: Function, forward: Call, item: Origin) -> bool:
    """Whether what an unknown loop gives is all that a forward is made of: configured stages, heads and scales are not."""
    first = forward.argument("", 0)
    local = {origin.made for origin in first.origins if origin.kind is Kind.LOCAL} if first is not None else set()
    file, line, _ = item.made.rsplit(":", 2)
    around = [loop for loop in function.loops if loop.order in forward.loops and not loop.counts]
    return (
        local == {item.made} and bool(around) and around[-1].place.file == file and around[-1].place.line == int(line)
    )


def _trains_the_wrapper(graph: CallGraph, call: Call) -> bool:
    model = call.receiver if call.does == "forward" else None
    if model is None or (model.may(Kind.WRAPPED, Kind.BARE) is None and not model.made & averaged_by_hand(graph)):
        return False
    return trains(graph, call)
