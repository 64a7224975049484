"""DDP720: the global rank is used as the number of a GPU."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import replace

from ddpdoctor.analysis.training_code.call_graph import CallGraph
from ddpdoctor.analysis.training_code.frameworks import DOES_THE_DEVICE
from ddpdoctor.analysis.training_code.several_ranks import is_for_several_nodes, is_of_one_node
from ddpdoctor.evidence.code_values import Kind, Origin, Value
from ddpdoctor.evidence.training_code import Call, Function
from ddpdoctor.messages.code_findings import code_finding, fix, in_tests, short
from ddpdoctor.model import Edit, Finding, Fix, Rule, Severity

RULE = Rule(
    code="DDP720",
    name="device-from-global-rank",
    summary="the global rank chooses the GPU: from the second node on there is no GPU of this number",
    severity=Severity.FAIL,
    remedy='choose the GPU by the local rank: `torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))`',
    leads_to=("DDP415", "DDP401"),
)
_LEAVES_IT = frozenset({"deepspeed", "ignite", "submitit"})
"""Frameworks whose programs choose the device themselves."""
_ONE_NODE = ("spawn", "start_processes", "Process", "notebook_launcher")

_DEVICE_OF: dict[str, tuple[tuple[str, int | None], ...]] = {
    **dict.fromkeys(("set-device", "cuda", "to"), (("device", 0),)),
    "device": (("index", 1), ("type", 0)),
    "wrap-ddp": (("device_ids", 1), ("output_device", 2)),
    "wrap-fsdp": (("device_id", None),),
}
"""Which arguments of a call name a device, by what the call is for."""

_NAMED_ALONE = re.compile(r"^[\w.]+ = [\w.]+$")
"""A name that is given another one: `gpu = rank`."""
_COMPUTED = re.compile(r"[-+*/%]")


def check(graph: CallGraph) -> Iterator[Finding]:
    """One finding for each function, at the first place that takes the global rank for a device."""
    taken = {
        (call.place.file, call.place.line)
        for _, call in graph.calls("device")
        if next(_devices(call), None) is not None
    }
    for function in graph.functions.values():
        if graph.any_program(function, DOES_THE_DEVICE - _LEAVES_IT):
            continue
        found = list(_computed(graph, function)) or _from_global_rank(graph, function, taken)
        if not found:
            continue
        call, value, origin = found[0]
        again = [
            f"and again in line {other.place.line}: {other.text}" for other, _, _ in found[1:4] if other is not call
        ]
        yield code_finding(
            RULE,
            f"{short(call)} gets the global rank `{value.text}`: rank 8 on the second node of 8 GPUs asks for GPU 8, which "
            "is not there",
            call.place,
            because=origin,
            severity=Severity.INFO if in_tests(call.place) else None,
            notes=[*again, f"`{value.text}` comes from {origin.text}"],
            remedy=f'use the local rank in place of `{value.text}`: `int(os.environ["LOCAL_RANK"])`',
            fix=_fix_of_all(found),
        )


def _from_global_rank(
    graph: CallGraph, function: Function, taken: AbstractSet[tuple[str, int]]
) -> list[tuple[Call, Value, Origin]]:
    """The devices of a function that are the global rank, in programs that may have several nodes; `taken` are named already."""
    found = [
        (call, value, origin)
        for call in graph.calls_of(function, *_DEVICE_OF)
        for value, origin in _devices(call)
        if not any((link.file, link.line) in taken and "device(" in link.text for link in origin.why)
    ]
    return found if found and _may_have_several_nodes(graph, function) else []


def _may_have_several_nodes(graph: CallGraph, function: Function) -> bool:
    """Whether nothing shows that there is one node, or the process group is as large as several."""
    if any(is_for_several_nodes(call) for _, call in graph.calls_near(function, "init")):
        return True
    return not graph.any_program(function, _ONE_NODE) and not is_of_one_node(graph, function)


def _fix_of_all(found: Sequence[tuple[Call, Value, Origin]]) -> Fix | None:
    """One fix for all places of a function; the first of those that are safe stands for them."""
    fixes = dict.fromkeys(each for one in found if (each := _fix(*one)) is not None)
    first = next(iter(sorted(fixes, key=lambda each: not each.safe)), None)
    return None if first is None else replace(first, also=tuple(each for each in fixes if each != first))


def _fix(call: Call, value: Value, origin: Origin) -> Fix | None:
    """LOCAL_RANK in place of RANK, which come from one launcher; of any other rank its remainder by the GPUs of the node."""
    listed = value.text.startswith("[") and value.text.endswith("]")  # `device_ids=[rank]`
    name = value.text[1:-1] if listed else value.text
    if not name.replace(".", "").isidentifier() or any(one.kind is not Kind.GLOBAL_RANK for one in value.origins):
        return None  # `"cuda"` where no launcher has started it
    from_launcher = origin.text == "RANK"
    new = 'int(os.environ["LOCAL_RANK"])' if from_launcher else f"{name} % torch.cuda.device_count()"
    new = f"[{new}]" if listed else new
    return fix(Edit.REPLACE_ARGUMENT, call.place, old=value.text, new=new, safe=from_launcher)


def _devices(call: Call) -> Iterator[tuple[Value, Origin]]:
    """The arguments of a call that name a device, where they are the global rank."""
    for value in _named_devices(call):
        if (origin := value.only(Kind.GLOBAL_RANK) or _of_one_launcher(value)) is not None:
            yield value, origin


def _of_one_launcher(value: Value) -> Origin | None:
    """The global rank that a name is given where one launcher is found, and the local rank where another is."""
    if value.only(Kind.GLOBAL_RANK, Kind.LOCAL_RANK) is None:
        return None
    return next(
        (
            one
            for one in value.origins
            if one.kind is Kind.GLOBAL_RANK and any(_NAMED_ALONE.match(link.text) for link in one.why[:1])
        ),
        None,
    )


def _named_devices(call: Call) -> Iterator[Value]:
    """The arguments of a call that name a device."""
    for name, position in _DEVICE_OF.get(call.does, ()):
        if (value := call.argument(name, position)) is not None:
            yield value


def _computed(graph: CallGraph, function: Function) -> Iterator[tuple[Call, Value, Origin]]:
    """The devices that are the rank which a process computed for a job of several nodes, and gave to its process group."""
    for init in graph.calls_of(function, "init"):
        rank = init.argument("rank", 4)
        if rank is None or not is_for_several_nodes(init):
            continue
        for call in graph.calls_of(function, *_DEVICE_OF):
            for value in _named_devices(call):
                origin = value.may(Kind.RANK, Kind.GLOBAL_RANK)
                if origin is not None and (value.text.strip("[]") == rank.text or _is_named(origin, rank)):
                    yield call, value, origin


def _is_named(device: Origin, rank: Value) -> bool:
    """Whether a device only gives another name to the rank of the process group: `torch.device(f"cuda:{args.rank}")`."""
    given = rank.only(Kind.RANK, Kind.GLOBAL_RANK)
    if given is None or not given.why or (given.kind, given.text) != (device.kind, device.text):
        return False
    since = len(device.why) - len(given.why)
    return device.why[since:] == given.why and not any(_COMPUTED.search(link.text) for link in device.why[:since])
