"""DDP750: all ranks write their checkpoint to one path."""

from __future__ import annotations

from collections.abc import Iterator

from ddpdoctor.analysis.training_code.call_graph import CallGraph
from ddpdoctor.analysis.training_code.frameworks import DOES_THE_DEVICE
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


_LEAVES_SAVES = frozenset({"accelerate", "fabric", "ignite", "mmengine"})
"""Frameworks that leave torch.save to the program where it calls it."""
_SHARDS = ("ParallelismConfig", "FullyShardedDataParallelPlugin", "DeepSpeedPlugin", "get_state_dict", "fully_shard")
"""What programs of Accelerate call that divide the parameters among the ranks."""
_PLAIN = ("open", "no_grad", "inference_mode", "BlobFile")


def check(graph: CallGraph) -> Iterator[Finding]:
    """One finding for each save of a model that no test of the rank guards, in a function that every rank runs."""
    for function, call in graph.calls("save"):
        if (
            call.name not in {"torch.save", ".save_pretrained"}
            or not graph.line_on_all_ranks(function, call)
            or any(not context.name.endswith(_PLAIN) and not graph.all_enter(context) for context in call.contexts)
        ):
            continue
        if graph.any_program(function, DOES_THE_DEVICE - _LEAVES_SAVES) or _sharded(graph, function):
            continue
        whole = call.name == "torch.save"
        if not whole and _may_gather(graph, function, call):
            continue
        path = call.argument("f", 1) if whole else call.argument("save_directory", 0)
        if path is None or path.may(*RANK_KINDS, Kind.LOCAL, Kind.OBJECT) or (whole and not path.origins):
            continue
        if not (_is_model(graph, function, call) if whole else _is_wrapped(graph, function, call)):
            continue
        if any(guard.state or guard.by_local for guard in call.guards):
            continue
        yield code_finding(
            RULE,
            f"every rank writes {path.text} at once: the file may hold parts of several writes",
            call.place,
            remedy=f"write `if dist.get_rank() == 0:` before {short(call)}, and `dist.barrier()` behind it",
        )


def _may_gather(graph: CallGraph, function: Function, save: Call) -> bool:
    """Whether a model that saves itself may gather its parts from all ranks: a framework's own wrapper, or its shards."""
    if graph.any_program(function, ("fabric", *_SHARDS)):
        return True
    return graph.any_program(function, ("accelerate",)) and (
        save.receiver is None or save.receiver.only(Kind.BARE) is None
    )


def _sharded(graph: CallGraph, function: Function) -> bool:
    return next(graph.calls_near(function, "wrap-fsdp"), None) is not None


def _is_wrapped(graph: CallGraph, function: Function, call: Call) -> bool:
    """Whether a model that was wrapped saves itself, and is not told which ranks write."""
    asked = call.argument("is_main_process") is not None or call.argument("save_function") is not None
    return not asked and _of_the_job(graph, function, call)


def _is_model(graph: CallGraph, function: Function, save: Call) -> bool:
    """Whether what is saved is the state of a wrapped model."""
    saved = save.argument("obj", 0)
    states = [graph.made[one.made][1] for one in saved.origins if one.made in graph.made] if saved is not None else []
    if any(call.does == "state-dict" and _of_the_job(graph, function, call) for call in states):
        return True
    return any(
        call.does == "state-dict"
        and _of_the_job(graph, function, call)
        and call.place.line <= save.place.line + 12
        and call.order < save.order
        for call in function.calls
    )


def _of_the_job(graph: CallGraph, function: Function, call: Call) -> bool:
    """Whether the object of a method is a wrapped model, the module inside, or what a wrapper was made of."""
    if call.receiver is None:
        return False
    if call.receiver.may(Kind.WRAPPED, Kind.BARE) is not None:
        return True
    inner = (wrap.argument("module", 0) for _, wrap in graph.calls_near(function, "wrap-ddp"))
    return any(model is not None and model.made & call.receiver.made for model in inner)
