"""DDP729: a collective over NCCL gets a tensor that is on the CPU."""

from __future__ import annotations

from collections.abc import Iterator

from ddpdoctor.analysis.training_code.call_graph import CallGraph
from ddpdoctor.analysis.training_code.frameworks import DOES_THE_DEVICE
from ddpdoctor.evidence.code_values import Kind, Origin
from ddpdoctor.evidence.training_code import Call, Function
from ddpdoctor.messages.code_findings import code_finding, short
from ddpdoctor.model import Finding, Rule, Severity

RULE = Rule(
    code="DDP729",
    name="cpu-tensor-in-nccl-collective",
    summary="a tensor on the CPU in a collective over NCCL: it raises `No backend type associated with device type cpu`",
    severity=Severity.FAIL,
    remedy="make the tensor on the rank's GPU: `torch.tensor(value, device=local_rank)`",
    leads_to=("DDP401",),
)
_FILLS_ITS_FIRST = ("all_gather", "all_gather_into_tensor")
"""Collectives whose first argument is made for the results."""
_DEFAULTS = {"set_default_device", "set_default_tensor_type"} | DOES_THE_DEVICE


def check(graph: CallGraph) -> Iterator[Finding]:
    """One finding for each collective of a tensor that is made on the CPU and never moved."""
    for function, call in graph.calls("collective"):
        if short(call).endswith(("_object", "_object_list", "barrier")) or not call.name.startswith(
            "torch.distributed."
        ):
            continue
        tensor = call.argument("tensor", 1 if short(call) in _FILLS_ITS_FIRST else 0)
        if tensor is None or (origin := tensor.may(Kind.CPU_TENSOR)) is None:
            continue
        if (
            any(
                _may_be_elsewhere(each) or (each.kind is Kind.SHARED and each.text != tensor.text)
                for each in tensor.origins  # the call itself leaves the tensor where it is
            )
            or call.argument("group") is not None
        ):
            continue
        if graph.any_program(function, _DEFAULTS) or not _only_nccl(graph, function):
            continue
        yield code_finding(
            RULE,
            f"{short(call)} over NCCL gets `{tensor.text}`, which is on the CPU: it raises `No backend type associated with "
            "device type cpu`",
            call.place,
            because=origin,
            remedy=f"make it on the GPU: add `device=torch.cuda.current_device()` to `{origin.text}`",
        )


def _may_be_elsewhere(origin: Origin) -> bool:
    """Whether an alternative may be on a GPU: what `torch.randperm` draws is on the CPU until it is moved."""
    return origin.kind is Kind.OBJECT and not (origin.note == "drawn" and origin.text.endswith("randperm"))


def _only_nccl(graph: CallGraph, function: Function) -> bool:
    inits = [call for _, call in graph.calls_near(function, "init")]
    return bool(inits) and all(_is_nccl(call) for call in inits)


def _is_nccl(call: Call) -> bool:
    backend = call.argument("backend", 0)
    return backend is not None and backend.constant in {"'nccl'", '"nccl"'}
