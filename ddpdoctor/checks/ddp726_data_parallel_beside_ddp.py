"""DDP726: a program with a process group wraps its model in nn.DataParallel."""

from __future__ import annotations

from collections.abc import Iterator

from ddpdoctor.analysis.training_code.call_graph import CallGraph
from ddpdoctor.messages.code_findings import code_finding
from ddpdoctor.model import Finding, Rule, Severity

RULE = Rule(
    code="DDP726",
    name="data-parallel-beside-ddp",
    summary="nn.DataParallel in a program with a process group: every rank uses every GPU, and nothing is reduced between ranks",
    severity=Severity.WARN,
    remedy="wrap the model in DistributedDataParallel alone, with `device_ids=[local_rank]`",
)


def check(graph: CallGraph) -> Iterator[Finding]:
    """One finding for each such wrapper that is always made once there is a process group."""
    for function, call in graph.calls("wrap-dp"):
        if call.guards or graph.on_all_ranks(function) is not True:
            continue
        inits = [init for init in function.calls if init.does == "init" and init.order < call.order and not init.guards]
        outer = [
            init
            for caller, way in graph.callers.get(function.id, ())
            for init in caller.calls
            if init.does == "init" and init.order < way.order and not init.guards
        ]
        if inits or outer:
            first = (inits or outer)[0]
            yield code_finding(
                RULE,
                f"the model is wrapped in nn.DataParallel though line {first.place.line} made a process group: every rank uses "
                "every GPU",
                call.place,
                first.place,
            )
