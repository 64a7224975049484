"""Lines that run once, in the process that starts the ranks, and not in each of them."""

from __future__ import annotations

from ddpdoctor.analysis.training_code.call_graph import CallGraph
from ddpdoctor.evidence.training_code import Call, Function

MOST_CALLS = 3  # functions between the start of the ranks and the line


def before_the_ranks(graph: CallGraph, function: Function, order: int, calls: int = MOST_CALLS) -> bool:
    """Whether the ranks are started behind a line: in its function, or in all that call this one."""
    if any(call.order > order and _starts_ranks(call) for call in graph.calls_of(function, "spawn", "process")):
        return True
    sites = [(caller, site) for caller, site in graph.callers.get(function.id, ()) if caller.id != function.id]
    return (
        bool(sites) and calls > 0 and all(before_the_ranks(graph, each, site.order, calls - 1) for each, site in sites)
    )


def _starts_ranks(call: Call) -> bool:
    """Whether a call starts the ranks: `spawn`, or a `Process` for each in a loop."""
    return call.does == "spawn" or (call.does == "process" and bool(call.loops))
