"""DDP750: all ranks write their checkpoint to one path."""

from __future__ import annotations

from collections.abc import Iterator

from ddpdoctor.analysis.training_code.call_graph import DOES_THE_DEVICE, CallGraph
from ddpdoctor.evidence.training_code import RANK_KINDS, Call, Function, Kind
from ddpdoctor.messages.code_findings import code_finding, short
from ddpdoctor.model import Finding, Rule, Severity

RULE = Rule(
    code="DDP750",
    name="checkpoint-written-by-every-rank",
    summary="every rank saves to the same path: the file holds what several ranks wrote at once",
    severity=Severity.WARN,
    remedy="save on rank 0 only: `if dist.get_rank() == 0:`",
)


def check(graph: CallGraph) -> Iterator[Finding]:
    """One finding for each save of a model that no test of the rank guards, in a function that every rank runs."""
    for function, call in graph.calls("save"):
        if (
            call.name not in {"torch.save", ".save_pretrained"}
            or not graph.line_on_all_ranks(function, call)
            or call.contexts
        ):
            continue
        if graph.any_program(function, DOES_THE_DEVICE) or _sharded(graph, function):
            continue
        whole = call.name == "torch.save"
        path = call.argument("f", 1) if whole else call.argument("save_directory", 0)
        if path is None or path.may(*RANK_KINDS, Kind.LOCAL, Kind.OBJECT) or (whole and not path.origins):
            continue
        if not (_is_model(function, call) if whole else _is_wrapped(call)):
            continue
        if any(guard.state or guard.by_local for guard in call.guards):
            continue
        yield code_finding(
            RULE,
            f"every rank writes {path.text} at once: the file may hold parts of several writes",
            call.place,
            remedy=f"write `if dist.get_rank() == 0:` before {short(call)}, and `dist.barrier()` behind it",
        )


def _sharded(graph: CallGraph, function: Function) -> bool:
    return next(graph.calls_near(function, "wrap-fsdp"), None) is not None


def _is_wrapped(call: Call) -> bool:
    """Whether a model that was wrapped saves itself, and is not told which ranks write."""
    asked = call.argument("is_main_process") is not None or call.argument("save_function") is not None
    return not asked and call.receiver is not None and call.receiver.may(Kind.WRAPPED, Kind.BARE) is not None


def _is_model(function: Function, save: Call) -> bool:
    """Whether what is saved is the state of a wrapped model."""
    return any(
        call.does == "state-dict"
        and call.receiver is not None
        and call.receiver.may(Kind.WRAPPED, Kind.BARE)
        and call.place.line <= save.place.line + 12
        and call.order < save.order
        for call in function.calls
    )
