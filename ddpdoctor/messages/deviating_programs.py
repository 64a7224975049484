"""What a message says of ranks whose calls differ from those of ranks with the same part in the job."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ddpdoctor.analysis.collectives.recorders.timeline import IssuedCall
from ddpdoctor.analysis.hangs.operations import Operation
from ddpdoctor.analysis.hangs.wait_for_graph import Reason, WaitForGraph
from ddpdoctor.messages.collectives import names
from ddpdoctor.messages.first_deviations import DeviatingCalls
from ddpdoctor.messages.majority import tie_note
from ddpdoctor.model import group_ranks, verb

SHOWN_OPERATIONS = 3  # those of an extra call that others do not take part in


def group_operations(graph: WaitForGraph) -> list[Operation]:
    """The collectives that ranks wait in."""
    return [operation for operation in graph.operations if operation.group is not None]


def waiting_calls(graph: WaitForGraph) -> dict[int, IssuedCall]:
    """By rank, the collective that it waits in."""
    return {rank: call for operation in group_operations(graph) for rank, call in operation.waiting.items()}


def next_calls(graph: WaitForGraph) -> dict[int, IssuedCall]:
    """By rank that the others wait for, the call that it waits in meanwhile."""
    return {rank: call for rank, call in graph.meanwhile.items() if rank in graph.ranks}


def sentence(graph: WaitForGraph, earlier: Sequence[DeviatingCalls]) -> str:
    """What the ranks called or left out; `earlier` are the first calls of that kind, where their records have them."""
    operations, ranks = group_operations(graph), graph.ranks
    called = _called(operations)
    others = [rank for rank in waiting_calls(graph) if rank not in ranks]
    they_wait = f"{group_ranks(others)} {verb(others, 'waits', 'wait')}"
    left_out = graph.reason is Reason.LEFT_OUT
    if graph.tied:
        return _of_equal_sides(graph, operations)
    if not any(operation.absent for operation in operations):
        verdict = "left out a" if left_out else "made an extra"
        return (
            f"{group_ranks(ranks)} {verdict} collective of {group_name(operations[0]) or 'the default group'}: {called} of "
            f"{group_ranks(ranks)} is not the call in which {they_wait}"
        )
    if earlier:
        did = "left out" if left_out else "made the extra call"
        alike = [one.rank for one in earlier if one.name == earlier[0].name]
        return (
            f"{group_ranks(alike)} {did} {earlier[0].name}; later calls of the group were mispaired until "
            f"{group_ranks(others or ranks)} waited in {called}"
        )
    if left_out:
        after = next_calls(graph)
        went_on = f", and went on to {names(after, ranks)}" if after else ""
        return f"{group_ranks(ranks)} never called {called}, in which {they_wait}{went_on}"
    absent = sorted({rank for operation in operations for rank in operation.absent})
    return f"{group_ranks(ranks)} called {called} that {group_ranks(absent)} did not call"


def witnesses_of_the_part(graph: WaitForGraph, earlier: Sequence[DeviatingCalls]) -> str:
    """What ranks with the same part in the job did at that point, or the rank itself before; empty where there is no majority."""
    if graph.tied:
        return ""
    if graph.by_turns:
        return f"{group_ranks(graph.ranks)} did not call it at this point in the turns of the loop before"
    left_out = graph.reason is Reason.LEFT_OUT
    if not any(operation.absent for operation in group_operations(graph)):
        did = "have made another number of calls at this point"
    elif earlier:
        did = "called it at this point" if left_out else "did not call it at this point"
        did += f", as did {group_ranks(graph.ranks)} before" if all(one.breaks_pattern for one in earlier) else ""
    else:
        did = "have called it at this point" if left_out else "do not call it at this point"
    return f"the other ranks with the same part in the job {did}"


def group_name(operation: Operation) -> str:
    """The name of the group of a collective; empty for the default group."""
    return operation.group.name if operation.group is not None else ""


def _called(operations: Sequence[Operation]) -> str:
    named = " and ".join(operation.name for operation in operations[:SHOWN_OPERATIONS])
    more = len(operations) - SHOWN_OPERATIONS
    return f"{named} and {more} more of other groups" if more > 0 else named


def _of_equal_sides(graph: WaitForGraph, operations: Sequence[Operation]) -> str:
    (operation,) = operations
    waiting: Mapping[int, IssuedCall] = waiting_calls(graph)
    return (
        f"{group_ranks([*waiting])} called {_called(operations)} that {group_ranks(operation.absent)} did not call, and all went "
        f"on to {names(next_calls(graph), operation.absent)}{tie_note(tied=True)}"
    )
