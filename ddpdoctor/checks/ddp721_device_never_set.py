"""DDP721: no rank chooses its GPU, so that all of them use GPU 0."""

from __future__ import annotations

from collections.abc import Iterator

from ddpdoctor.analysis.training_code.call_graph import DOES_THE_DEVICE, CallGraph
from ddpdoctor.evidence.training_code import Call, Program
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
_CHOOSES = {"set_device", "set_device_index", "device_id=", "device_ids=", "CUDA_VISIBLE_DEVICES", "set_default_device",
            "HIP_VISIBLE_DEVICES", "init_distributed_mode", "set_cuda_device"} | DOES_THE_DEVICE  # fmt: skip


def check(graph: CallGraph) -> Iterator[Finding]:
    """One finding for each program in which every device is plain `cuda`."""
    seen: set[str] = set()
    for program in graph.distinct_programs:
        calls = [call for _, call in graph.calls_in(program)]
        inits = [call for call in calls if call.does == "init"]
        if not inits or not all(_is_nccl(call) for call in inits) or _chooses(graph, program):
            continue
        used = [(call, device) for call in calls if (device := _device(call)) is not None]
        if not used or any(device not in {"cuda", "cpu", "plain"} for _, device in used):
            continue
        first = next((call for call, device in used if device in {"cuda", "plain"}), None)
        if first is not None and inits[0].id not in seen:
            seen.add(inits[0].id)
            yield code_finding(
                RULE,
                f"{first.text} is GPU 0 on every rank: nothing in this program says which GPU is whose",
                first.place,
                inits[0].place,
            )


def _is_nccl(call: Call) -> bool:
    backend = call.argument("backend", 0)
    return backend is not None and backend.constant is not None and "nccl" in backend.constant


def _chooses(graph: CallGraph, program: Program) -> bool:
    words = {
        word
        for file in program.files
        if file in graph.modules
        for word in (*graph.modules[file].words, *graph.modules[file].frameworks, *graph.modules[file].reads)
    }
    return bool(words & _CHOOSES)


def _device(call: Call) -> str | None:
    """`cuda`, `cpu` or `plain` for `.cuda()`; `?` for anything else that may be a device, None where it is none."""
    if call.does == "cuda":
        return (
            "plain" if not call.arguments or (call.argument("0") is None and call.argument("device") is None) else "?"
        )
    if call.does not in {"to", "device"}:
        return None
    given = call.argument("device", 0) or call.argument("type")
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
