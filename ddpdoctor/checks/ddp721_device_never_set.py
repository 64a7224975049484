"""DDP721: no rank chooses its GPU, or chooses it after it has used CUDA, so that all of them use GPU 0."""

from __future__ import annotations

from collections.abc import Iterator

from ddpdoctor.analysis.training_code.call_graph import CallGraph
from ddpdoctor.analysis.training_code.frameworks import DOES_THE_DEVICE
from ddpdoctor.evidence.code_values import Kind
from ddpdoctor.evidence.training_code import Call, Function, Program
from ddpdoctor.messages.code_findings import code_finding
from ddpdoctor.model import Finding, Rule, Severity

RULE = Rule(
    code="DDP721",
    name="device-never-set",
    summary="a program for NCCL uses CUDA and never says which GPU is whose: all ranks use GPU 0",
    severity=Severity.FAIL,
    remedy='call `torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))` before the first use of CUDA',
    leads_to=("DDP415",),
)
_CHOOSES = {"set_device", "set_device_index", "device_ids=", "CUDA_VISIBLE_DEVICES", "set_default_device",
            "HIP_VISIBLE_DEVICES", "init_distributed_mode", "init_dist", "set_cuda_device"} | DOES_THE_DEVICE  # fmt: skip

_MAY_COME_LATE = {"set_device", "device_ids="}

_MOVES = ("cuda", "to", "device", "placed")
"""The purposes of calls that say where a tensor or a model is."""

_USES = ("cuda", "to")
"""Those that use a GPU at once: an object of `torch.device` only names one."""


def check(graph: CallGraph) -> Iterator[Finding]:
    """One finding for each program in which every device is plain `cuda`, or in which one is before the device is set."""
    seen: set[str] = set()
    for program in graph.distinct_programs:
        inits = [call for _, call in graph.files.calls_in(program.files, "init")]
        if not inits or not all(_is_nccl(call) for call in inits):
            continue
        if (late := _set_late(graph, program)) is not None and late[1].id not in seen:
            used_first, chosen = late
            seen.add(chosen.id)
            yield code_finding(
                RULE,
                f"{used_first.text} is GPU 0 on every rank: {chosen.text} comes after it, in line {chosen.place.line}",
                used_first.place,
                chosen.place,
                severity=Severity.WARN,
            )
        if _chooses(graph, program):
            continue
        moves = graph.files.calls_in(program.files, *_MOVES)
        used = [(call, device) for _, call in moves if (device := _device(call)) is not None]
        if not used or any(device not in {"cuda", "cpu", "plain"} for _, device in used):
            continue
        plain = [call for call, device in used if device in {"cuda", "plain"}]
        first = next((call for call in plain if _before_the_batches(call)), plain[0] if plain else None)
        if first is not None and inits[0].id not in seen:
            seen.add(inits[0].id)
            yield code_finding(
                RULE,
                f"{first.text} is GPU 0 on every rank: nothing in this program says which GPU is whose",
                first.place,
                inits[0].place,
            )


def _before_the_batches(call: Call) -> bool:
    """Whether a call names the device or moves a model: a program does so before it moves its first batch."""
    return call.does == "device" or (
        call.receiver is not None and call.receiver.may(Kind.MODEL, Kind.WRAPPED) is not None
    )


def _is_nccl(call: Call) -> bool:
    backend = call.argument("backend", 0)
    return backend is not None and backend.constant is not None and "nccl" in backend.constant


def _set_late(graph: CallGraph, program: Program) -> tuple[Call, Call] | None:
    """The first use of plain `cuda` before the only `set_device` of a program, and this call; None where it comes first.

    Both are in one function, or the use is in a function that this one alone calls.
    """
    if _words(graph, program) & _CHOOSES - _MAY_COME_LATE or _bound(graph, program):
        return None
    chosen = {call.id: (function, call) for function, call in graph.files.calls_in(program.files, "set-device")}
    if len(chosen) != 1:
        return None
    ((owner, chooses),) = chosen.values()
    for function, call in graph.files.calls_in(program.files, *_USES):
        site = _site_in(graph, owner, function, call)
        if site is None or call.guards or _device(call) not in {"cuda", "plain"}:
            continue
        if any(one.under("torch.cuda.device", "torch.cuda.device_of") for one in (call, site)):
            continue
        if (
            site.order < chooses.order
            and not site.loops
            and not chooses.loops
            and site.guards == chooses.guards[: len(site.guards)]
        ):
            return call, chooses
    return None


def _site_in(graph: CallGraph, owner: Function, function: Function, call: Call) -> Call | None:
    """What `owner` calls to reach a call: the call itself, or the only call of its function."""
    if function.id == owner.id:
        return call
    callers = graph.callers.get(function.id, [])
    return callers[0][1] if len(callers) == 1 and callers[0][0].id == owner.id else None


def _chooses(graph: CallGraph, program: Program) -> bool:
    return bool(_words(graph, program) & _CHOOSES) or _bound(graph, program)


def _bound(graph: CallGraph, program: Program) -> bool:
    """Whether the process group or a wrapper is given the device: `device_id=` of a loader of images binds nothing."""
    return any(
        call.argument("device_id") is not None or call.argument("**") is not None
        for _, call in graph.files.calls_in(program.files, "init", "wrap-fsdp")
    )


def _words(graph: CallGraph, program: Program) -> set[str]:
    """The words, frameworks and variables of a program that say who chooses the device."""
    return {
        word
        for file in program.files
        if file in graph.modules
        for word in (*graph.modules[file].words, *graph.modules[file].frameworks, *graph.modules[file].reads)
    }


def _device(call: Call) -> str | None:
    """`cuda`, `cpu` or `plain` for `.cuda()`; `?` for anything else that may be a device, None where it is none."""
    if call.does == "cuda":
        return (
            "plain" if not call.arguments or (call.argument("0") is None and call.argument("device") is None) else "?"
        )
    if call.does not in _MOVES:
        return None
    position = None if call.does == "placed" else 0
    given = call.argument("device", position) or call.argument("type")
    if given is None:
        return None
    if call.does == "device" and call.argument("index", 1) is not None:
        return "?"
    if given.text.startswith("torch.") and "device" not in given.text:
        return None  # a type of number
    texts = {origin.text.strip("\"'") for origin in given.origins}
    if texts and texts <= {"cuda", "cpu"}:
        return "cuda" if "cuda" in texts else "cpu"
    return "?"
