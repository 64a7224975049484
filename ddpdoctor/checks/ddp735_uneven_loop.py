"""DDP735: ranks make different numbers of steps, because each goes over its own files or samples."""

from __future__ import annotations

import re
from collections.abc import Iterator

from ddpdoctor.analysis.training_code.call_graph import CallGraph
from ddpdoctor.analysis.training_code.frameworks import DOES_THE_DATA
from ddpdoctor.analysis.training_code.later_calls import needs_all
from ddpdoctor.analysis.training_code.models_and_loaders import cut_inside, loaders_of, own_cut
from ddpdoctor.analysis.training_code.reached_collectives import leads_to_collective
from ddpdoctor.evidence.code_values import Kind, Origin, Value
from ddpdoctor.evidence.training_code import Call, Cut, Function, Loop
from ddpdoctor.messages.code_findings import code_finding
from ddpdoctor.model import Finding, Rule, Severity

RULE = Rule(
    code="DDP735",
    name="uneven-loop",
    summary="each rank loops over its own part of a list, with a backward or a collective inside: the rank with more of it "
    "waits for the others",
    severity=Severity.WARN,
    remedy="run the loop inside `with Join([model])`, or cut all parts to the length of the shortest",
    leads_to=("DDP306",),
)
_SETS_THE_LENGTH = ("sampler", "batch_sampler", "drop_last", "**")
_OF_A_LIST = re.compile(r"len\(self\.\w+\)")


def check(graph: CallGraph) -> Iterator[Finding]:
    """One finding for each loop over a part that the rank chose, with a step inside."""
    for function in graph.functions.values():
        for loop in function.loops:
            part = _part(graph, loop)
            if (
                part is None
                or loop.over.may(Kind.SHARED)
                or any(context.name.endswith(("Join", ".join")) for context in loop.contexts)
                or _stops_together(function, loop)
            ):
                continue
            step = needs_all(graph, function, loop)
            if step is not None:
                call, what = step
                yield code_finding(
                    RULE,
                    f"`{loop.head}` turns as often as this rank has items, and the {what} in line {call.place.line} "
                    "needs all ranks",
                    loop.place,
                    call.place,
                    because=part,
                )


def _part(graph: CallGraph, loop: Loop) -> Origin | None:
    """The part of the data that the rank has chosen, and that a loop goes over: also through a loader over it."""
    found = _uneven(loop.over)
    if found is not None:
        return found
    for owner, loader in loaders_of(graph, loop.over):
        dataset = loader.argument("dataset", 0)
        listed_part = _uneven(dataset) if dataset is not None and dataset.only(Kind.LOCAL) else None
        if listed_part is not None and not any(map(loader.argument, _SETS_THE_LENGTH)):
            return listed_part
        made = [graph.made[each][1] for each in dataset.made if each in graph.made] if dataset is not None else []
        if dataset is None or dataset.only(Kind.DATASET) is None or not made:
            continue
        listed = _is_listed(graph, dataset) or all(_holds_its_arguments(each) for each in made)
        if not _only_once(graph, dataset) and not listed:
            continue
        if any(loader.argument(name) is not None for name in ("sampler", "batch_sampler")):
            continue
        if loader.argument("drop_last") is not None or graph.any_program(owner, DOES_THE_DATA):
            continue
        parts = [_uneven(argument.value) for each in made for argument in each.arguments]
        part = next((one for one in parts if one is not None), None)
        if part is not None and (_only_once(graph, dataset) or _as_all_come(graph, owner)):
            return part
    return _cut_by_data_set(graph, loop) or _cut_by_iterator(graph, loop)


def _uneven(value: Value) -> Origin | None:
    """The alternative of a list or number that is another on each rank; None where it may have been cut to one length."""
    if any(one.note == "even" for one in value.origins):
        return None
    return next((one for one in value.origins if one.note in {"part", "length"}), None)


def _holds_its_arguments(made: Call) -> bool:
    """Whether a data set of torch is as long as what it is made of."""
    return made.does == "subset" or made.name.endswith("TensorDataset")


def _cut_by_data_set(graph: CallGraph, loop: Loop) -> Origin | None:
    """The rank that a data set has cut its list by, in its constructor or iterator: parts differ, and so does the last batch."""
    for _, loader in loaders_of(graph, loop.over):
        cut = cut_inside(graph, loader)
        plain = all(loader.argument(name) is None for name in ("drop_last", "sampler", "batch_sampler", "**"))
        dataset = loader.argument("dataset", 0)
        endless = dataset is None or (
            any(f"{one.note}.__iter__" in graph.functions for one in dataset.origins)
            and (not _only_once(graph, dataset))
        )
        if cut is not None and plain and not endless and _as_it_comes(cut):
            return cut.by
    return None


def _cut_by_iterator(graph: CallGraph, loop: Loop) -> Origin | None:
    """The rank by which an object of the program has cut the list that its iterator goes over, in no loader."""
    for _, made in loaders_of(graph, loop.over):
        cut, iterator = own_cut(graph, made), graph.functions.get(f"{made.target.rpartition('.')[0]}.__iter__")
        if cut is None or iterator is None or not iterator.loops or not _as_it_comes(cut):
            continue
        meets = any(leads_to_collective(graph, call) is not None for call in iterator.calls)
        if not meets and not iterator.exits and not any(map(_turns_without_data, iterator.loops)):
            return cut.by
    return None


def _as_it_comes(cut: Cut) -> bool:
    """Whether nothing makes the parts equally long: the whole list is cut by steps of the world size."""
    return not cut.even and cut.strided


def _only_once(graph: CallGraph, dataset: Value) -> bool:
    """Whether a data set is an iterable one whose iterator ends with its data: no `while` and no count of its own goes on."""
    for origin in dataset.origins:
        method = graph.functions.get(f"{origin.note}.__iter__")
        if method is None or any(map(_turns_without_data, method.loops)):
            return False
    return True


def _turns_without_data(loop: Loop) -> bool:
    """Whether the turns of a loop are not those of the data: a `while`, or a count that stands in no other loop."""
    return loop.head.startswith("while") or (loop.counts and not loop.loops and _uneven(loop.over) is None)


def _is_listed(graph: CallGraph, dataset: Value) -> bool:
    """Whether a data set holds what it was given and nothing else: no rank tells another how much that is."""
    for origin in dataset.origins:
        methods = graph.files.functions_below(origin.note)
        if not any(each.id.endswith(".__getitem__") for each in methods):
            return False
        lengths = [each.length for each in methods if each.id.endswith(".__len__")]
        if not lengths or not all(_OF_A_LIST.fullmatch(length) for length in lengths):
            return False
        if any(leads_to_collective(graph, call) is not None for each in methods for call in each.calls):
            return False
    return True


def _stops_together(function: Function, loop: Loop) -> bool:
    """Whether the loop is left by a test that is no value of the rank: a number of steps that all ranks may share."""
    if "islice" in loop.over.text or "zip(" in loop.over.text:
        return True
    return any(
        leave.form == "break"
        and leave.loops[-1:] == (loop.order,)
        and not any(guard.by_local for guard in leave.guards)
        for leave in function.exits
    )


def _as_all_come(graph: CallGraph, function: Function) -> bool:
    """Whether every cut of these programs is one by steps of the world size, so that the parts differ by one."""
    return all(_as_it_comes(cut) for each in graph.files.functions_near(function) for cut in each.cuts)
