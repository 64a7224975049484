"""Which functions and lines all ranks run, as far as tests of the rank go."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from ddpdoctor.analysis.training_code.call_graph import CallGraph
from ddpdoctor.analysis.training_code.collective_calls import COLLECTIVE
from ddpdoctor.analysis.training_code.guards import may_ask_for_rank, rank_guard
from ddpdoctor.analysis.training_code.parent_process import before_the_ranks
from ddpdoctor.evidence.training_code import Call, Change, Context, Function, Guard

_JOINS_THE_JOB = frozenset({"init", "accelerator", "deepspeed"})
_MAKES_THE_JOB = _JOINS_THE_JOB | {"fabric"}  # which starts the other ranks itself, behind the lines before it


def on_all_ranks(graph: CallGraph, function: Function) -> bool | None:
    """True where a chain of calls without a test of the rank leads here, False where all have one, None if unknown."""
    known: dict[str, bool | None] = graph.once("functions on all ranks", dict)  # the answers alone: they hold no graph
    return known[function.id] if function.id in known else _OnAllRanks(graph, known).of(function)


def line_on_all_ranks(graph: CallGraph, function: Function, call: Call | Change) -> bool:
    """Whether all ranks make a call or a change for certain, as far as tests of the rank go."""
    asked = any(guard.by_rank or may_ask_for_rank(guard) for guard in call.guards)
    alone = before_the_ranks(graph, function, call.order)
    return not asked and not alone and on_all_ranks(graph, function) is True


def guarded_with_caller(graph: CallGraph, function: Function, call: Call) -> tuple[Function, Call, Guard] | None:
    """The test of the rank around a call, its function, or the only call of the function that it stands in, and where."""
    guard = rank_guard(call.guards) or next((one for one in function.guards if one.by_rank), None)
    if guard is not None:
        return function, call, guard
    callers = graph.callers.get(function.id, ())
    if len(callers) != 1 or (guard := rank_guard(callers[0][1].guards)) is None:
        return None
    return *callers[0], guard


def all_enter(graph: CallGraph, context: Context) -> bool:
    """Whether all ranks run a `with` block of the program alike: what is entered asks for no rank and meets no other one."""
    ids = (context.target, f"{context.target}.__enter__", f"{context.target}.__exit__") if context.target else ()
    entered = [graph.functions[each] for each in ids if each in graph.functions]
    calls = [call for function in entered for call in function.calls]
    guards = [*(call.guards for call in calls), *(leave.guards for function in entered for leave in function.exits)]
    asks = any(one.by_rank for each in guards for one in each)
    return bool(entered) and not asks and not any(call.does in COLLECTIVE for call in calls)


def starts_the_job(graph: CallGraph, function: Function, depth: int = 2) -> bool:
    """Whether a function makes the process group, by itself or in one that it calls."""
    called = [graph.functions[call.target] for call in function.calls if call.target in graph.functions]
    return any(call.does in _JOINS_THE_JOB for call in function.calls) or (
        depth > 0 and any(starts_the_job(graph, each, depth - 1) for each in called)
    )


@dataclass(eq=False)
class _OnAllRanks:
    """Finds the answers for functions, each once."""

    graph: CallGraph
    """Who calls whom."""
    _known: dict[str, bool | None]

    def of(self, function: Function) -> bool | None:
        """True where a chain of calls without a test of the rank leads here, False where all have one, None if unknown."""
        waiting, begun = [function], set[str]()
        while waiting:
            at = waiting[-1]
            if at.id in begun:
                begun.remove(at.id)
                self._known[at.id] = self._judged(at)
            elif at.id not in self._known:
                begun.add(at.id)
                self._known[at.id] = None  # for functions that call each other in a ring
                waiting += [each for each in reversed(self._asked_first(at)) if each.id not in self._known]
                continue
            waiting.pop()
        return self._known[function.id]

    def _asked_first(self, function: Function) -> list[Function]:
        """The functions whose answers that of a function depends on."""
        callers = self.graph.callers.get(function.id, [])
        around = self._defines_handler(function) or self._makes_the_object(function)
        return [*(caller for caller, _ in callers), *((around,) if around is not None and not callers else ())]

    def _judged(self, function: Function) -> bool | None:
        """The answer for a function, from those for the functions that it depends on."""
        if any(guard.by_rank for guard in function.guards):
            return False
        if function.entry or function.hook:
            return True if not _is_cell(function) or _makes_the_job(function) else None
        callers = self.graph.callers.get(function.id, [])
        answers = [self._under(call.guards, caller) for caller, call in callers]
        if True in answers:
            return True
        if answers and None not in answers:
            return False
        around = self._defines_handler(function)
        if not callers and around is not None:
            return self._under(function.within, around)
        if not callers and (maker := self._makes_the_object(function)) is not None:
            return self._known.get(maker.id)
        return True if _makes_the_job(function) else None

    def _under(self, guards: Iterable[Guard], function: Function) -> bool | None:
        """Whether all ranks reach a line of a function under these tests."""
        guards = tuple(guards)
        if any(guard.by_rank for guard in guards):
            return False
        return None if any(may_ask_for_rank(guard) for guard in guards) else self._known.get(function.id)

    def _defines_handler(self, function: Function) -> Function | None:
        """The function in which a handler of Ignite's is defined; None where it is no such handler."""
        handles = any(name.endswith(".on") for name in function.decorators)
        return self.graph.functions.get(function.id.rpartition(".")[0]) if handles else None

    def _makes_the_object(self, function: Function) -> Function | None:
        """The `__init__` of the class of a property, which is read and not called; None of other functions."""
        read = any(name.endswith("property") for name in function.decorators)
        return self.graph.functions.get(f"{function.id.rpartition('.')[0]}.__init__") if read else None


def _makes_the_job(function: Function) -> bool:
    """Whether a function makes the process group or a wrapper under no test of the rank: all ranks must call it then."""
    return any(
        (call.does in _MAKES_THE_JOB or call.does.startswith("wrap-"))
        and not any(guard.by_rank or guard.form == "after" for guard in call.guards)
        for call in function.calls
    )


def _is_cell(function: Function) -> bool:
    """Whether it is the code of a notebook's cells, which one process runs: it starts the ranks."""
    return function.place.function == "<module>" and function.place.file.partition(":")[0].endswith(".ipynb")
