"""DDP754: training resumes at a later epoch, and its sampler begins at epoch 0 again."""

from __future__ import annotations

import re
from collections.abc import Iterator

from ddpdoctor.analysis.training_code.call_graph import CallGraph
from ddpdoctor.analysis.training_code.frameworks import DOES_THE_DATA
from ddpdoctor.analysis.training_code.guards import inner_loops
from ddpdoctor.evidence.code_values import Kind, Value
from ddpdoctor.evidence.training_code import Call, Function, Loop
from ddpdoctor.messages.code_findings import code_finding
from ddpdoctor.model import Finding, Rule, Severity

RULE = Rule(
    code="DDP754",
    name="resume-without-sampler-epoch",
    summary="training resumes at epoch N, and the sampler's epochs begin at 0: the orders of the first epochs come again",
    severity=Severity.INFO,
    remedy="give set_epoch the epoch's own number: `sampler.set_epoch(epoch)`",
    leads_to=("DDP513",),
)

_RESUMED = "start|resume|begin|initial|last|done|first|next|past|completed|finished"
_REST = re.compile(rf"\brange\([^,()]* - ((?:\w+\.)*\w*(?:{_RESUMED})\w*)\)$")

_NUMBERED = re.compile(r"for \(?(?P<number>\w+), (?P<counter>\w+)\)? in enumerate\((?:tqdm\()?range\([^()]*\)\)+$")
"""A loop that numbers its epochs from 0, whatever the first one is."""


def check(graph: CallGraph) -> Iterator[Finding]:
    """One finding for each set_epoch in such a loop whose number does not begin where the loop does."""
    for function, call in graph.calls("set-epoch"):
        around = list(inner_loops(function, call.order))
        loop = next((each for each in around if each.starts is not None), None)
        given = call.argument("epoch", 0)
        rest = next((each for each in around if _counts_the_rest(each)), None)
        if rest is not None and given is not None and given.text == rest.head.split()[1]:
            start = _counts_the_rest(rest)
            yield code_finding(
                RULE,
                f"`{rest.head}` goes on behind epoch {start}, and set_epoch({given.text}) begins at 0: the orders of the first "
                "epochs come again",
                call.place,
                rest.place,
                remedy=f"call `set_epoch({start} + {given.text})`",
            )
            continue
        if given is not None and (counted := _counted_anew(graph, function, call, given)) is not None:
            yield code_finding(
                RULE,
                f"`{counted.head}` goes on at {counted.starts.text if counted.starts is not None else ''}, and "
                f"`{given.text}` counts from 0 again: the orders of the first epochs come again",
                call.place,
                counted.place,
                remedy=f"give set_epoch the number of the epoch, which `{counted.head}` counts",
            )
            continue
        if (
            loop is None
            or given is None
            or graph.any_program(function, DOES_THE_DATA)
            or not _resumed(graph, function, loop)
        ):
            continue
        numbered = _NUMBERED.match(loop.head)
        counter = numbered["counter"] if numbered is not None else loop.head.split()[1].strip("(),")
        start = loop.starts.text if loop.starts is not None else ""
        anew = numbered["number"] if numbered is not None else f"{counter}-{start}"
        if start and given.text.replace(" ", "") == anew.replace(" ", ""):
            yield code_finding(
                RULE,
                f"`{loop.head}` goes on at {start}, and set_epoch({given.text}) begins at 0: the orders of the first epochs come "
                "again",
                call.place,
                loop.place,
                remedy=f"call `set_epoch({counter})`",
            )


def _counted_anew(graph: CallGraph, function: Function, call: Call, given: Value) -> Loop | None:
    """The loop that resumes, in the function or around its calls, while the epoch is a count of its own that begins at 0."""
    count = next(
        (origin for origin in given.origins if origin.kind is Kind.UNKNOWN and origin.text == given.text), None
    )
    if count is None or {origin.text for origin in given.origins if origin is not count} != {"0"}:
        return None
    if any(origin.kind not in {Kind.UNKNOWN, Kind.CONSTANT} for origin in given.origins):
        return None
    ways = [(function, call), *graph.callers.get(function.id, ())]
    loops = (loop for around, way in ways for loop in inner_loops(around, way.order))
    return next((loop for loop in loops if loop.starts is not None and loop.starts.may(Kind.OBJECT) is not None), None)


def _counts_the_rest(loop: Loop) -> str:
    """Of `range(epochs - start)`, which counts from 0 again, where training resumes: `start`; else empty."""
    found = _REST.search(loop.head)
    return found[1] if found is not None and loop.starts is None else ""


def _resumed(graph: CallGraph, function: Function, loop: Loop) -> bool:
    """Whether the first epoch comes from a checkpoint or an option: it is no constant, or has a name where one is loaded."""
    if loop.starts is None or loop.starts.may(Kind.LOCAL) is not None:
        return False
    named = loop.starts.text.isidentifier() and any(graph.calls_near(function, "load-state"))
    return loop.starts.constant is None or named
