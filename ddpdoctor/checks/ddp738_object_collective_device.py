"""DDP738: objects are sent over NCCL before any rank has chosen its GPU."""

from __future__ import annotations

from collections.abc import Iterator

from ddpdoctor.analysis.training_code.call_graph import CallGraph
from ddpdoctor.analysis.training_code.frameworks import DOES_THE_DEVICE
from ddpdoctor.evidence.training_code import Call, Function
from ddpdoctor.messages.code_findings import code_finding, short
from ddpdoctor.model import Finding, Rule, Severity

RULE = Rule(
    code="DDP738",
    name="object-collective-device",
    summary="collectives of objects over NCCL use the current GPU, and no rank sets one: all of them use GPU 0",
    severity=Severity.FAIL,
    remedy="call `torch.cuda.set_device(local_rank)` before the first collective of objects",
    leads_to=("DDP415",),
)
_SETS = {
    "CUDA_VISIBLE_DEVICES",
    "init_distributed_mode",
} | DOES_THE_DEVICE


def check(graph: CallGraph) -> Iterator[Finding]:
    """One finding for each program whose ranks do so, at the first such call."""
    seen: set[str] = set()
    for function, call in graph.calls("collective"):
        if not short(call).endswith(("_object", "_object_list")) or graph.any_program(function, _SETS):
            continue
        if not _set_later(graph, function, call):
            continue
        if call.argument("device") is not None or call.argument("group") is not None or function.id in seen:
            continue
        inits = [init for _, init in graph.calls_near(function, "init")]
        if not inits or any(
            init.argument("device_id") is not None
            or (given := init.argument("backend", 0)) is None
            or given.constant != "'nccl'"
            for init in inits
        ):
            continue
        seen.add(function.id)
        yield code_finding(
            RULE,
            f"{short(call)} over NCCL moves its objects through the current GPU, and no rank has set one: all use GPU 0",
            call.place,
            inits[0].place,
        )


def _set_later(graph: CallGraph, function: Function, call: Call) -> bool:
    """Whether no device is set anywhere, or only behind the call: in the same function, or in one that calls it."""
    sites = [(function, call), *graph.callers.get(function.id, ())]
    return all(
        any(owner.id == each.id and other.order > site.order and other.loops == site.loops for each, site in sites)
        for owner, other in graph.calls_near(function, "set-device")
    )
