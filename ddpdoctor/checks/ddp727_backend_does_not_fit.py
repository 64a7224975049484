"""DDP727: the backend is for another kind of device than the model."""

from __future__ import annotations

from collections.abc import Iterator

from ddpdoctor.analysis.training_code.call_graph import CallGraph
from ddpdoctor.analysis.training_code.frameworks import DOES_THE_DEVICE
from ddpdoctor.evidence.training_code import Call, Guard, Program
from ddpdoctor.messages.code_findings import code_finding
from ddpdoctor.model import Finding, Rule, Severity

RULE = Rule(
    code="DDP727",
    name="backend-does-not-fit",
    summary="the backend does not fit the devices: nccl needs CUDA tensors, and gloo is slow with them",
    severity=Severity.WARN,
    remedy='choose it by the device: `"nccl" if torch.cuda.is_available() else "gloo"`',
    leads_to=("DDP413",),
)


_OTHER_DEVICES = {"cuda", "set_device", "is_available", "current_device", "device=", "device_ids=", "device_count",
                  "set_default_device", "set_default_tensor_type"}  # fmt: skip


def check(graph: CallGraph) -> Iterator[Finding]:
    """One finding for each program with one backend and devices of the other kind only."""
    seen: set[str] = set()
    for program in graph.distinct_programs:
        inits = [call for _, call in graph.files.calls_in(program.files, "init")]
        wraps = [call for _, call in graph.files.calls_in(program.files, "wrap-ddp")]
        backends = {_backend(call) for call in inits}
        if len(inits) != 1 or not wraps or inits[0].id in seen or _framework(graph, program):
            continue
        if not all(guard.state or "environ" in guard.test or _is_named(guard) for guard in inits[0].guards):
            continue
        seen.add(inits[0].id)
        on_gpu = [call for call in wraps if _is_on_gpu(graph, call)]
        plain = all(guard.state or guard in inits[0].guards for call in wraps for guard in call.guards)
        if backends == {"gloo"} and len(on_gpu) == len(wraps) and plain:
            yield code_finding(
                RULE,
                "the gradients of a model on GPUs go over gloo, through the CPU: it works and is many times slower than nccl",
                inits[0].place,
                on_gpu[0].place,
            )
        elif backends == {"nccl"} and _cpu_only(graph, program, wraps):
            yield code_finding(
                RULE,
                "the backend is nccl, and the model stays on the CPU: nccl takes CUDA tensors only",
                inits[0].place,
                wraps[0].place,
            )


def _is_on_gpu(graph: CallGraph, wrap: Call) -> bool:
    """Whether a wrapper is given devices, or a model that is moved to one of CUDA, whatever the machine has."""
    ids, module = wrap.argument("device_ids", 1), wrap.argument("module", 0)
    if ids is not None:
        return ids.constant != "None"
    return any(
        _moves_to_gpu(call) for made in (module.made if module is not None else ()) for _, call in graph.taken_by(made)
    )


def _moves_to_gpu(call: Call) -> bool:
    """Whether a call moves its object to a GPU for certain: no guard, and no other device that it may be."""
    if call.does not in {"cuda", "to"} or call.guards:
        return False
    given = call.argument("device", 0)
    texts = [origin.text for origin in given.origins] if given is not None else []
    return call.does == "cuda" or (any("cuda" in text for text in texts) and not any("cpu" in text for text in texts))


def _is_named(guard: Guard) -> bool:
    """Whether a test is a setting of the program alone, such as `DISTRIBUTED`, and not what the machine has."""
    return guard.test.isidentifier() and guard.by_rank is None


def _backend(call: Call) -> str:
    given = call.argument("backend", 0)
    return (given.constant or "?").strip("\"'") if given is not None else "?"


def _framework(graph: CallGraph, program: Program) -> bool:
    return any(set(graph.modules[file].frameworks) & DOES_THE_DEVICE for file in program.files if file in graph.modules)


def _cpu_only(graph: CallGraph, program: Program, wraps: list[Call]) -> bool:
    """Whether nothing in a program names a device but the CPU, and something does."""
    words = {word for file in program.files if file in graph.modules for word in graph.modules[file].words}
    if words & _OTHER_DEVICES:
        return False
    devices = [call for _, call in graph.files.calls_in(program.files, "to", "device")]
    if not devices and all(_stays(graph, call) for call in wraps):
        return True
    return bool(devices) and all(
        (given := call.argument("device", 0)) is not None and given.constant == "'cpu'" for call in devices
    )


def _stays(graph: CallGraph, wrap: Call) -> bool:
    """Whether a layer of torch or a model of the program is wrapped as it was made, and no call moves it before."""
    model = wrap.argument("module", 0)
    if model is None or len(model.origins) != 1:
        return False
    if (
        not model.origins[0].text.startswith("torch.nn.")
        and model.origins[0].note.partition("::")[0] not in graph.modules
    ):
        return False
    return not any(call.does in {"to", "cuda"} for _, call in graph.taken_by(model.origins[0].made))
