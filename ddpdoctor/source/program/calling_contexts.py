"""Small functions by the calls that lead to them: a factory gives each of its callers another object."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

from ddpdoctor.source.names import torch_names as names
from ddpdoctor.source.names.dotted_names import dotted
from ddpdoctor.source.program.index import Site
from ddpdoctor.source.syntax.scopes import Scope

MOST_CONTEXTS = 12  # of one function: each is evaluated, and told to the rules, on its own
MOST_CALLS = 40  # in a function that is looked at call by call: factories have few
MOST_STATEMENTS = 60
_TRAINS = names.COLLECTIVES | {"backward", "step", "zero_grad", "set_epoch", "init_process_group", "spawn", "no_sync"}
"""Calls of functions that do the work themselves: they are no factories."""
_OF_FILES = frozenset({"load_state_dict", "save", "load"})
"""Calls that read or write what the caller of their function gives, whether it has a result or not."""


@dataclass(frozen=True, slots=True, eq=False)
class CallingContext:
    """One call of a function, and the call that the function around was entered by."""

    function: Scope
    """The function that is called."""
    site: Site
    """The call by which the function is looked at."""
    parent: CallingContext | None
    """The same of the function that the call stands in, where that one is looked at call by call, too."""
    suffix: str
    """What is added to the ids of the function and of its calls: `@2`."""


@dataclass(eq=False)
class Contexts:
    """The contexts of each function that makes something for several callers."""

    calls_of: Callable[[Scope], Sequence[Site]]
    """The calls of a function."""
    _known: dict[int, dict[tuple[int, int], CallingContext]] = field(default_factory=dict)

    def of(self, function: Scope) -> tuple[CallingContext, ...]:
        """All contexts of a function; empty where it is read once for all of its callers."""
        return tuple(self._of(function).values())

    def entered(self, function: Scope, call: int, parent: CallingContext | None) -> CallingContext | None:
        """The context of a call, by the identity of its node, in a function that was itself entered by `parent`."""
        return self._of(function).get((call, id(parent)))

    def _of(self, function: Scope) -> dict[tuple[int, int], CallingContext]:
        """By the call's node and the context around it."""
        if id(function) not in self._known:
            self._find(function)
        return self._known[id(function)]

    def _find(self, function: Scope) -> None:
        """Find the contexts of a function, those of its callers first, without recursion: Tarjan's components.

        Functions that call each other in a ring have none, whichever of them is asked for first.
        """
        opened = [function]  # those without an answer, in the order in which they were met
        places, lowest = {id(function): 0}, {id(function): 0}
        path = [(function, self._callers(function))]
        while path:
            at, callers = path[-1]
            caller = next((one for one in callers if id(one) not in self._known), None)
            if caller is None:
                path.pop()
                if path:
                    around = id(path[-1][0])
                    lowest[around] = min(lowest[around], lowest[id(at)])
                if lowest[id(at)] == places[id(at)]:
                    ring = opened[places[id(at)] :]
                    del opened[places[id(at)] :]
                    self._known |= {id(one): self._new(one) if len(ring) == 1 else {} for one in ring}
            elif id(caller) in places:
                lowest[id(at)] = min(lowest[id(at)], places[id(caller)])
            else:
                places[id(caller)] = lowest[id(caller)] = len(opened)
                opened.append(caller)
                path.append((caller, self._callers(caller)))

    def _callers(self, function: Scope) -> Iterator[Scope]:
        return (site.caller for site in self._sites(function))

    def _sites(self, function: Scope) -> Sequence[Site]:
        """The calls of a factory; none where there are so many that it is not looked at call by call."""
        sites = self.calls_of(function)
        few = 0 < len(sites) <= MOST_CONTEXTS and not any(site.spawned or site.caller is function for site in sites)
        return sites if few and _is_small(function) else ()

    def _new(self, function: Scope) -> dict[tuple[int, int], CallingContext]:
        sites = self._sites(function)
        around: list[list[CallingContext | None]] = [
            [*self._known[id(site.caller)].values()] or [None] for site in sites
        ]
        if not 1 < sum(map(len, around)) <= MOST_CONTEXTS:
            return {}
        ways = [(site, parent) for site, parents in zip(sites, around, strict=True) for parent in parents]
        return {
            (id(site.call.node), id(parent)): CallingContext(function, site, parent, f"@{number}")
            for number, (site, parent) in enumerate(ways, 1)
        }


def _is_small(function: Scope) -> bool:
    """Whether a function is a factory, or works for its caller: short, with parameters, without steps or collectives."""
    own = function.parameters[1:] if function.parent is not None and function.parent.is_class else function.parameters
    if (
        not own
        or not (
            function.returns
            or any(
                call.method in _OF_FILES or (isinstance(call.node.func, ast.Call) and _is_named_by(call.node.func, own))
                for call in function.calls
            )
        )
        or function.is_class
        or function.generator
        or any(not name.startswith("<lambda") for name in function.functions)
        or function.classes
        or function.name.startswith("__")
        or len(function.calls) > MOST_CALLS
        or len(function.statements) > MOST_STATEMENTS
    ):
        return False
    return not any(call.method in _TRAINS for call in function.calls)


def _is_named_by(func: ast.Call, own: tuple[str, ...]) -> bool:
    """Whether the caller names the method that is called: `getattr(hook, event)(self)`."""
    key = func.args[1] if dotted(func.func) == "getattr" and len(func.args) > 1 else None
    return isinstance(key, ast.Name) and key.id in own
