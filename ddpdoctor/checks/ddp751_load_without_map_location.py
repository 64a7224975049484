"""DDP751: every rank loads a checkpoint of GPU tensors to the GPU that wrote them."""

from __future__ import annotations

from collections.abc import Iterator

from ddpdoctor.analysis.training_code.all_ranks import line_on_all_ranks
from ddpdoctor.analysis.training_code.call_graph import CallGraph
from ddpdoctor.analysis.training_code.frameworks import DOES_THE_DEVICE
from ddpdoctor.evidence.code_values import RANK_KINDS, Kind, Origin, Value
from ddpdoctor.evidence.training_code import Call, Function
from ddpdoctor.messages.code_findings import code_finding, fix
from ddpdoctor.model import Edit, Finding, Rule, Severity

RULE = Rule(
    code="DDP751",
    name="load-without-map-location",
    summary="torch.load without map_location: every rank puts the checkpoint on the GPU that it was saved from",
    severity=Severity.WARN,
    remedy='load to the CPU: `torch.load(path, map_location="cpu")`',
    leads_to=("DDP407",),
)
_DEVICE_WORDS = ("cpu", "gpu", "cuda", "device", "distributed", "exists")
_OF_IGNITE = frozenset({"ignite", "horovod", "xla"})
"""Ignite, and what it imports itself: a load that the program writes out is its own matter."""
_IGNITE_GIVES_GPUS = ("Parallel",)
_IGNITE_SAVES = ("Checkpoint", "ModelCheckpoint", "DiskSaver", "gen_save_best_models_by_val_score")


def check(graph: CallGraph) -> Iterator[Finding]:
    """One finding for each such load whose result goes into a model or an optimizer."""
    for function, call in graph.calls("load"):
        if call.argument("map_location", 1) is not None or not call.name.startswith("torch."):
            continue
        gives_the_device = DOES_THE_DEVICE - _OF_IGNITE if graph.any_program(function, ("ignite",)) else DOES_THE_DEVICE
        if graph.any_program(function, gives_the_device) or not line_on_all_ranks(graph, function, call):
            continue
        path = call.argument("f", 0)
        if path is None or path.may(*RANK_KINDS) or any(map(_of_one_rank, path.origins)) or _is_loaded(path):
            continue
        if any(word in guard.test.lower() for guard in call.guards for word in _DEVICE_WORDS[:-1]):
            continue
        if not _saves_from_gpu(graph, function) or not _is_restored(graph, call):
            continue
        yield code_finding(
            RULE,
            f"{call.text} has no map_location: the tensors of all ranks land on the GPU that saved them, GPU 0",
            call.place,
            remedy=f'write `torch.load({path.text}, map_location="cpu")`',
            fix=fix(Edit.ADD_ARGUMENT, call.place, new='map_location="cpu"'),
        )


def _saves_from_gpu(graph: CallGraph, function: Function) -> bool:
    """Whether a program of the function gives ranks a GPU each, and saves checkpoints itself."""
    if graph.any_program(function, _IGNITE_GIVES_GPUS) and graph.any_program(function, _IGNITE_SAVES):
        return True
    saves = any(call.name == "torch.save" for _, call in graph.calls_near(function, "save"))
    return saves and any(
        call.does == "set-device" or call.argument("device_ids", 1) is not None
        for _, call in graph.calls_near(function, "set-device", "wrap-ddp")
    )


def _is_restored(graph: CallGraph, load: Call) -> bool:
    return any(
        load.id in argument.value.made
        for _, call in graph.taken_by(load.id)
        if call.does == "load-state"
        for argument in call.arguments[:1]
    )


def _is_loaded(path: Value) -> bool:
    """Whether callers give what a load gave: a function that takes either loads a path alone."""
    return bool(path.origins) and all(origin.note == "load" for origin in path.origins)


def _of_one_rank(origin: Origin) -> bool:
    """Whether a path may be another one on each rank: one from a listing of a folder is not."""
    listed = origin.note in {"item", "number"} and origin.from_listing
    return origin.kind is Kind.LOCAL and not listed
