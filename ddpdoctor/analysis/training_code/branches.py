"""Whether the ranks that do not take a branch make the same call in another place."""

from __future__ import annotations

from collections.abc import Sequence

from ddpdoctor.analysis.training_code.call_graph import CallGraph
from ddpdoctor.analysis.training_code.collective_calls import is_collective
from ddpdoctor.analysis.training_code.guards import rank_guard
from ddpdoctor.analysis.training_code.reached_collectives import CallOfAllRanks, leads_to_collective, may_make
from ddpdoctor.evidence.code_values import Origin
from ddpdoctor.evidence.training_code import Call, Function, Guard
from ddpdoctor.grouping import grouped

_OTHERS = {"first": "others", "others": "first"}


def answered_elsewhere(graph: CallGraph, function: Function, call: Call, guard: Guard) -> bool:
    """Whether another branch, or another test of the rank in this function, leads to the same collective."""
    wanted = _name(graph, call)
    if any(
        _may_answer(graph, function, other, wanted)
        for other in _leading(graph, function)
        if _other_branch(other, guard)
    ):
        return True
    alike = _alike(graph, function, wanted)
    for other in alike:
        if other is call:
            continue
        for its in other.guards:
            if its.by_rank is None or its == guard:
                continue
            if its.form == "after":
                if its.line == guard.line:
                    return True  # the branch has made its call and left; the others make it here
                continue
            if its.test == guard.test and its.form == guard.form == "if":
                continue  # the same ranks take that branch, too
            if its.line != guard.line or its.form != guard.form or its.branch != guard.branch:
                return True
    if any(its.form == "except" for its in call.guards) and any(
        other.order > call.order and guard not in other.guards for other in alike
    ):
        return True  # the handler may leave behind it, and the others make theirs below
    # `if rank != 0: barrier(); return` and a barrier for the rest of the ranks below
    return any(
        other is not call
        and other.order > call.order
        and any(each.form == "after" and each.line == guard.line for each in other.guards)
        for other in alike
    )


def answered_by_another(graph: CallGraph, function: Function, reached: CallOfAllRanks, guard: Guard) -> bool:
    """Whether a function makes a collective for some ranks, and its callers call another that makes it for the others.

    `wait_for_first()` and `let_others_in()` around a download are a pair. Where nobody calls the function, the other one
    stands beside it in its file.
    """
    if guard.of_rank not in _OTHERS:
        return False
    name = reached.call.name
    around = {caller.id: caller for caller, _ in graph.callers.get(function.id, ())}
    if not around:
        beside = (one for one in graph.functions.values() if one.place.file == function.place.file)
        return any(_makes_for(one, name, _OTHERS[guard.of_rank]) for one in beside if one is not function)
    return all(
        any(
            _makes_for(graph.functions[call.target], name, _OTHERS[guard.of_rank])
            for call in caller.calls
            if call.target in graph.functions and call.target != function.id
        )
        for caller in around.values()
    )


def _makes_for(function: Function, name: str, ranks: str) -> bool:
    """Whether a function makes a collective for these ranks alone."""
    made = (call for call in function.calls if is_collective(call) and call.name == name)
    guards = (rank_guard(call.guards) for call in made)
    return any(guard is not None and guard.of_rank == ranks for guard in guards)


def answered_by_own_value(graph: CallGraph, function: Function, call: Call, guard: Guard, origin: Origin) -> bool:
    """Whether the ranks that a test of their own value sends another way make the same collective there."""
    for other in _alike(graph, function, _name(graph, call)):
        if other is call:
            continue
        for its in other.guards:
            if its not in call.guards and (its.line == guard.line or origin in its.value.origins):
                return True
    return False


def may_be_made_by_others(function: Function, does: str, guard: Guard) -> bool:
    """Whether a call for this purpose, or one of the program that may make it, is left to ranks that a test sends another way.

    It stands in another branch, behind the branch that has left, or under another test of the rank.
    """
    return any(
        guard not in call.guards and any(its.line == guard.line or its.by_rank for its in call.guards)
        for call in function.calls
        if call.does == does or call.target
    )


def _other_branch(call: Call, guard: Guard) -> bool:
    """Whether a call stands in another branch of the statement that a test belongs to."""
    return any(
        its.form in {"if", "else", "case"}
        and its.test
        and (its.line, its.branch) != (guard.line, guard.branch)
        and its.by_rank is not None
        for its in call.guards
    )


def _leading(graph: CallGraph, function: Function) -> Sequence[Call]:
    """The calls of a function that lead, or may lead, to others of the program."""
    return graph.once(
        ("leading", function.id), lambda: [call for call in function.calls if call.target or not call.does]
    )


def _alike(graph: CallGraph, function: Function, wanted: str) -> Sequence[Call]:
    """The calls of a function that make the same collective, or are for the same."""
    named = graph.once(("named", function.id), lambda: grouped((_name(graph, call), call) for call in function.calls))
    return named.get(wanted, ())


def _may_answer(graph: CallGraph, function: Function, call: Call, wanted: str) -> bool:
    """Whether the function that a call leads to, or may lead to, makes the wanted collective under whatever tests."""
    if call.target:
        return may_make(graph, call.target, wanted)
    return not call.does and any(may_make(graph, each, wanted) for each in graph.methods_near(function, call.name))


def _name(graph: CallGraph, call: Call) -> str:
    if is_collective(call):
        return call.name.rpartition(".")[2]
    reached = leads_to_collective(graph, call)
    if reached is not None:
        return reached.call.name.rpartition(".")[2]
    return call.does if call.does in {"forward", "state-dict", "new-group"} else call.id
