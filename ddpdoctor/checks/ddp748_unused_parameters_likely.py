"""DDP748: the wrapped model makes a layer that no forward uses."""

from __future__ import annotations

from collections.abc import Iterator

from ddpdoctor.analysis.training_code.call_graph import CallGraph
from ddpdoctor.analysis.training_code.frameworks import DOES_THE_DATA
from ddpdoctor.analysis.training_code.several_ranks import needs_all_gradients
from ddpdoctor.evidence.code_values import Kind
from ddpdoctor.evidence.training_code import Call, UnusedPart
from ddpdoctor.messages.code_findings import code_finding
from ddpdoctor.model import Finding, Rule, Severity

RULE = Rule(
    code="DDP748",
    name="unused-parameters-likely",
    summary="the wrapped model makes a layer that nothing uses: its parameters never get a gradient, and DDP raises",
    severity=Severity.WARN,
    remedy="remove the layer, or use it in forward; `find_unused_parameters=True` where it is used in some steps only",
    leads_to=("DDP404",),
)


def check(graph: CallGraph) -> Iterator[Finding]:
    """One finding for each wrapper of a model with such layers, and for each run of Lightning with one."""
    yield from _in_lightning(graph)
    for function, wrap in graph.calls("wrap-ddp"):
        given = wrap.argument("find_unused_parameters")
        if (given is not None and given.constant != "False") or wrap.argument("static_graph") or wrap.argument("**"):
            continue
        model = wrap.argument("module", 0)
        origin = model.only(Kind.MODEL) if model is not None else None
        if origin is None or not origin.note or graph.any_program(function, DOES_THE_DATA):
            continue
        unused = list(_unused(graph, origin.note, 3))
        if unused:
            yield _finding(wrap, unused)


def _in_lightning(graph: CallGraph) -> Iterator[Finding]:
    """The models that a Trainer of Lightning fits, which wraps them itself."""
    for _, run in graph.calls("collective-run"):
        model = run.argument("model", 0) if run.name == ".fit" else None
        origin = model.only(Kind.MODEL) if model is not None else None
        trainers = [graph.made[made][1] for made in run.receiver.made if made in graph.made] if run.receiver else []
        if origin is None or not origin.note or not trainers or not all(map(needs_all_gradients, trainers)):
            continue
        unused = list(_unused(graph, origin.note, 3))
        if unused:
            yield _finding(run, unused)


def _finding(wrap: Call, unused: list[UnusedPart]) -> Finding:
    first = unused[0]
    return code_finding(
        RULE,
        f"self.{first.name} = {first.layer}(...) of the wrapped model is used by no line of the program: its parameters get no "
        "gradient, and DDP raises in the second step",
        first.place,
        wrap.place,
        notes=[f"and self.{each.name} in {each.place.file}:{each.place.line}" for each in unused[1:4]],
    )


def _unused(graph: CallGraph, cls: str, depth: int) -> Iterator[UnusedPart]:
    """Such layers of a class, and of the classes whose objects it makes."""
    module = graph.modules.get(cls.partition("::")[0])
    yield from (part for part in (module.unused if module is not None else ()) if part.cls == cls)
    made = graph.functions.get(f"{cls}.__init__")
    for call in made.calls if made is not None and depth else ():
        inner = call.target.removesuffix(".__init__")
        if call.target.endswith(".__init__") and inner != cls:
            yield from _unused(graph, inner, depth - 1)
