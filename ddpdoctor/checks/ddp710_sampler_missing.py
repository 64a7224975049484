"""DDP710: a training loader without a distributed sampler gives all ranks all the data."""

from __future__ import annotations

from collections.abc import Iterator

from ddpdoctor.analysis.training_code.all_ranks import line_on_all_ranks
from ddpdoctor.analysis.training_code.call_graph import CallGraph
from ddpdoctor.analysis.training_code.frameworks import DOES_THE_DATA
from ddpdoctor.analysis.training_code.models_and_loaders import forwards_of, is_of_wrapped, loss_of
from ddpdoctor.analysis.training_code.several_ranks import started_by_ignite
from ddpdoctor.evidence.code_values import RANK_KINDS, Kind, Value
from ddpdoctor.evidence.training_code import Call, Function, Place
from ddpdoctor.messages.code_findings import code_finding
from ddpdoctor.model import Finding, Rule, Severity

RULE = Rule(
    code="DDP710",
    name="sampler-missing",
    summary="the training loader of a DDP job has no DistributedSampler: every rank trains on all the data",
    severity=Severity.FAIL,
    remedy="give the loader `sampler=DistributedSampler(dataset)` in place of `shuffle=True`",
    leads_to=("DDP511",),
)


_GIVEN = frozenset({"accelerate", "fabric", "deepspeed", "ignite"})
"""Frameworks that divide only the loaders, or the data, that they are given."""
_GIVES = frozenset({"prepare_data_loader", "split_between_processes"})
"""What programs of these name that divide the data in other ways."""
_OF_DEEPSPEED = ("training_data=", "deepspeed_io", "mpu=")
"""What programs of DeepSpeed name where it makes the loader itself, or where several ranks see the same data on purpose."""
_DATA_SETS = frozenset({"dataset", "prepare-data"})


def check(graph: CallGraph) -> Iterator[Finding]:
    """One finding for each loader over a whole map-style data set that feeds the wrapped model."""
    for function, loader in graph.calls("loader"):
        if _has_sampler(graph, loader):
            continue
        if not loader.name.endswith("DataLoader") or any(argument.name == "**" for argument in loader.arguments):
            continue
        if graph.any_program(function, (*DOES_THE_DATA - _GIVEN, *_OF_DEEPSPEED)) or _may_be_given(
            graph, function, loader
        ):
            continue
        if not line_on_all_ranks(graph, function, loader) and not started_by_ignite(graph, function):
            continue
        if any(guard.form in {"else", "or"} or guard.by_rank or guard.of_job for guard in loader.guards):
            continue
        dataset = loader.argument("dataset", 0)
        if dataset is None or not _is_whole(graph, dataset):
            continue
        trained = _trained(graph, loader) or _run_by_ignite(graph, function, loader)
        if trained is not None:
            yield code_finding(
                RULE,
                f"no DistributedSampler: each rank goes over all of `{dataset.text}`, and the ranks train on the same samples",
                loader.place,
                trained.place,
                *_asked_for_at(graph, function, loader),
                remedy=_remedy(graph, function, loader, dataset),
            )


def _remedy(graph: CallGraph, function: Function, loader: Call, dataset: Value) -> str:
    """What gives each rank its part: a framework, the loader's own sampler, or one of torch's."""
    if graph.any_program(function, ("accelerate", "fabric")):
        return "give the loader to the framework (`accelerator.prepare`, `fabric.setup_dataloaders`), which divides it"
    given = (loader.argument("sampler", 3), loader.argument("batch_sampler", 4))
    own = next((one for one in given if one is not None and one.may(Kind.INSTANCE)), None)
    if own is not None:
        return f"have `{own.text}` give each rank its part: every n-th item from its rank on, with n the world size"
    return f"write `sampler=DistributedSampler({dataset.text})` in place of `shuffle`, and call its set_epoch in every epoch"


def _run_by_ignite(graph: CallGraph, function: Function, loader: Call) -> Call | None:
    """The run of an engine of Ignite over a loader, in a program that wraps its model; None of what `auto_dataloader` made."""
    if not started_by_ignite(graph, function) or next(graph.calls_near(function, "wrap-ddp"), None) is None:
        return None
    return next((run for _, run in graph.taken_by(loader.id) if run.does == "run-engine"), None)


def _asked_for_at(graph: CallGraph, function: Function, loader: Call) -> list[Place]:
    """The call that a function made this loader for, where it makes others for others."""
    sites = graph.callers.get(function.id, []) if loader.variant else []
    return [site.place for _, site in sites] if len(sites) == 1 else []


def _has_sampler(graph: CallGraph, loader: Call) -> bool:
    """Whether a loader draws through anything but a sampler that knows of one process only."""
    given = (loader.argument("sampler", 3), loader.argument("batch_sampler", 4))
    return not all(one is None or one.constant == "None" or _is_plain(graph, one) for one in given)


def _is_plain(graph: CallGraph, sampler: Value) -> bool:
    """Whether it is one of torch's plain samplers, or one of the program's that nothing tells of its rank."""
    one = sampler.only(Kind.OBJECT)
    if one is not None:
        return one.note == "plain-sampler"
    own = sampler.only(Kind.INSTANCE)
    made = graph.made.get(own.made) if own is not None else None
    if made is None or made[1].does != "rankless-sampler":
        return False
    return not any(_may_be_own(each.value) or each.value.may(Kind.INSTANCE, Kind.SAMPLER) for each in made[1].arguments)


def _may_be_given(graph: CallGraph, function: Function, loader: Call) -> bool:
    """Whether a framework that divides what it is given may get this loader."""
    if not graph.any_program(function, ("accelerate", "fabric")):
        return False
    prepares = [call for _, call in graph.calls_near(function, "prepare")]
    taken = any(loader.id in one.value.made for call in prepares for one in call.arguments)
    unknown = any("*" in call.text for call in prepares)
    return taken or unknown or graph.any_program(function, _GIVES)


def _is_whole(graph: CallGraph, dataset: Value) -> bool:
    """Whether every alternative is a map-style data set that no rank was given a part of."""
    if dataset.only(Kind.DATASET) is None:
        return False
    for origin in dataset.origins:
        made = graph.made.get(origin.made)
        if made is None:
            return False
        _, call = made
        if call.does not in _DATA_SETS and "__getitem__" not in _methods(graph, origin.note):
            return False
        if any(_may_be_own(argument.value) for argument in call.arguments):
            return False
        if any(_asks(graph.functions.get(method)) for method in _members(graph, origin.note)):
            return False
    return True


def _may_be_own(given: Value) -> bool:
    """Whether what a data set is made of may differ between ranks: it holds the rank, or random numbers."""
    return given.may(*RANK_KINDS, Kind.WORLD_SIZE, Kind.LOCAL) is not None or any(
        "rand" in text for text in (given.text, *(origin.text for origin in given.origins))
    )


def _members(graph: CallGraph, cls: str) -> list[str]:
    return [name for name in graph.functions if cls and name.startswith(f"{cls}.")]


def _methods(graph: CallGraph, cls: str) -> set[str]:
    return {name.rpartition(".")[2] for name in _members(graph, cls)}


def _asks(function: Function | None) -> bool:
    return function is not None and (any(call.does == "ask" for call in function.calls) or bool(function.cuts))


def _trained(graph: CallGraph, loader: Call) -> Call | None:
    """A backward through the wrapper over batches of this loader."""
    for function, backward in graph.taken_by(loader.id):
        loss = loss_of(graph, backward) if backward.does == "backward" else None
        if loss is None or loader.id not in loss.made:
            continue
        wrapped = any(
            forward.receiver is not None and is_of_wrapped(graph, owner, forward.receiver)
            for owner, forward in forwards_of(graph, loss)
        )
        prepared = any(origin.note == "prepared" for origin in loss.origins)
        repeated = backward.loops or graph.is_called_in_a_loop(function)
        if wrapped and not prepared and repeated:
            return backward
    return None
