"""Whether the ranks that do not take a branch make the same call in another place."""

from __future__ import annotations

from ddpdoctor.analysis.training_code.call_graph import CallGraph, is_collective
from ddpdoctor.evidence.training_code import Call, Function, Guard


def answered_elsewhere(graph: CallGraph, function: Function, call: Call, guard: Guard) -> bool:
    """Whether another branch, or another test of the rank in this function, leads to the same collective."""
    wanted = _name(graph, call)
    for other in function.calls:
        if other is call or _name(graph, other) != wanted:
            continue
        for its in other.guards:
            if its.by_rank is None or its == guard:
                continue
            if its.form == "after":
                if its.line == guard.line:
                    return True  # the branch has made its call and left; the others make it here
                continue
            if its.line != guard.line or its.form != guard.form or its.branch != guard.branch:
                return True
    # `if rank != 0: barrier(); return` and a barrier for the rest of the ranks below
    return any(
        other is not call
        and _name(graph, other) == wanted
        and other.order > call.order
        and any(each.form == "after" and each.line == guard.line for each in other.guards)
        for other in function.calls
    )


def _name(graph: CallGraph, call: Call) -> str:
    if is_collective(call):
        return call.name.rpartition(".")[2]
    reached = graph.leads_to_collective(call)
    if reached is not None:
        return reached.call.name.rpartition(".")[2]
    return call.does if call.does in {"forward", "state-dict", "new-group"} else call.id
