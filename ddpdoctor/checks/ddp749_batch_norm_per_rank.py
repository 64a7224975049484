"""DDP749: BatchNorm over a few samples per rank."""

from __future__ import annotations

from collections.abc import Iterator

from ddpdoctor.analysis.training_code.call_graph import CallGraph
from ddpdoctor.analysis.training_code.models_and_loaders import forwards_of, has_batch_norm, wraps_of
from ddpdoctor.evidence.code_values import Kind
from ddpdoctor.evidence.training_code import Call, Function
from ddpdoctor.messages.code_findings import code_finding
from ddpdoctor.model import Finding, Rule, Severity
from ddpdoctor.whole_numbers import whole_number

RULE = Rule(
    code="DDP749",
    name="batch-norm-per-rank",
    summary="batch normalisation over a small batch per rank, and no SyncBatchNorm: a few samples give mean and variance",
    severity=Severity.INFO,
    remedy="convert the model before it is wrapped: `model = nn.SyncBatchNorm.convert_sync_batchnorm(model)`",
    leads_to=("DDP508",),
)
FEWEST = 8  # samples; below that BatchNorm's error grows fast (Wu and He, Group Normalization, figure 1)


def check(graph: CallGraph) -> Iterator[Finding]:
    """One finding for each training loader of so few samples that feeds a wrapped model with BatchNorm."""
    for function, loader in graph.calls("loader"):
        given, option = _samples(loader)
        if not 0 < given < FEWEST:
            continue
        if graph.any_program(function, ("convert_sync_batchnorm", "SyncBatchNorm")):
            continue
        backward = _trained(graph, loader)
        if backward is not None and loader.argument("batch_sampler") is None:
            yield code_finding(
                RULE,
                f"BatchNorm of the wrapped model sees {given} sample{'s' if given != 1 else ''} per rank"
                f"{f', the default of {option}' if option else ''}",
                loader.place,
                backward.place,
            )


def _samples(loader: Call) -> tuple[int, str]:
    """The batch size, and the option that it is the default of; 0 where it is not known."""
    size = loader.argument("batch_size", 1)
    if size is None:
        return 1, ""
    options = [origin.text for origin in size.origins if origin.note == "argument"]
    known = [origin.text for origin in size.origins if origin.kind is Kind.CONSTANT]
    if len(known) != 1 or len(options) > 1 or len(size.origins) != len(options) + 1:
        return 0, ""
    return whole_number(known[0]) or 0, "".join(options)


def _trained(graph: CallGraph, loader: Call) -> Call | None:
    for function, backward in graph.taken_by(loader.id):
        if backward.does == "backward" and backward.receiver is not None and _normalises(graph, function, backward):
            return backward
    return None


def _normalises(graph: CallGraph, function: Function, backward: Call) -> bool:
    repeated = backward.loops or graph.is_called_in_a_loop(function)
    if backward.receiver is None or not repeated:
        return False
    wrapped = [call.receiver for _, call in forwards_of(graph, backward.receiver) if call.receiver is not None]
    models = [
        wrap.argument("module", 0) for each in wrapped if each.may(Kind.WRAPPED) for _, wrap in wraps_of(graph, each)
    ]
    return any(model is not None and has_batch_norm(graph, model) for model in models)
