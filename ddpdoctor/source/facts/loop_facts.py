"""The facts about the loops of one function: what each goes over, and how often it turns."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass, replace

from ddpdoctor.evidence.code_values import Kind, Origin, Value
from ddpdoctor.evidence.training_code import Loop
from ddpdoctor.source.dataflow.iteration import loader_in
from ddpdoctor.source.dataflow.origins import At
from ddpdoctor.source.dataflow.reaching_definitions import LOOPS, only_definition
from ddpdoctor.source.dataflow.values import Values
from ddpdoctor.source.facts.guards import value_of
from ddpdoctor.source.facts.surroundings import Surroundings
from ddpdoctor.source.names.dotted_names import dotted
from ddpdoctor.source.syntax.scopes import RawLoop, Scope

_GO_OVER = frozenset({"tqdm", "enumerate", "track"})
_RANGES = frozenset({"range", "trange"})


@dataclass(frozen=True, slots=True)
class LoopFacts:
    """Makes the facts about loops."""

    values: Values
    """Tells what a loop goes over."""
    places: Surroundings
    """Tells where a loop stands."""

    def of(self, scope: Scope) -> Iterator[Loop]:
        """The loops of a function."""
        if not scope.loops:
            return
        tells = "set_epoch" in {call.method for call in scope.calls if call.method != call.name}
        bound = _bound_in_loops(scope) if tells else {}
        for raw in scope.loops:
            yield self._loop(raw, scope, binds=tuple(bound.get(id(raw.body), ())))

    def _loop(self, raw: RawLoop, scope: Scope, binds: tuple[str, ...]) -> Loop:
        node = raw.node
        at = At(scope, raw.order, raw.block)
        place = self.places.place(scope, node)
        if isinstance(node, ast.While):
            at = At(scope, raw.order + 1, raw.body)  # what the body assigns decides on the next turn
            over, counts, turns, head = (
                self.places.guards.tested(node.test, at),
                True,
                None,
                f"while {self.values.text(node.test, scope)}",
            )
        else:
            loader = loader_in(self.values, node.iter, at)
            over = value_of(self.values, node.iter, at)
            if loader is not None:
                over = Value(text=over.text, origins=(loader, *(one for one in over.origins if one != loader)))
            name = dotted(node.iter.func) if isinstance(node.iter, ast.Call) else ""
            counts, turns = _counts(node.iter, name)
            counts = counts or self._yields_numbers(node.iter, at)
            over = replace(over, origins=(*over.origins, *self._numbered(node.iter, at)))
            head = f"for {self.values.text(node.target, scope)} in {over.text}"
        around = self.places.around(raw.block, raw.order, scope)
        return Loop(
            place=place,
            head=head,
            order=raw.order,
            last_order=raw.last_order,
            over=over,
            counts=counts,
            turns=turns,
            starts=self._starts(node, at)
            if isinstance(node, ast.For | ast.AsyncFor)
            else self._counted_from(raw, scope),
            binds=binds,
            guards=around.guards,
            loops=around.loops,
            contexts=around.contexts,
        )

    def _numbered(self, node: ast.expr, at: At) -> Iterator[Origin]:
        """The data sets whose items a loop goes over by their numbers: `for i in range(0, len(data), 10)`."""
        given = at.scope.definitions.get(node.id) if isinstance(node, ast.Name) else None
        only = only_definition(given, at.order, at.block) if given else None
        counted = only.value if only is not None and not only.index else node
        while isinstance(counted, ast.Call) and dotted(counted.func).rpartition(".")[2] in _GO_OVER and counted.args:
            counted = counted.args[0]
        if not isinstance(counted, ast.Call) or dotted(counted.func) not in _RANGES:
            return
        computed = [given for given in counted.args if isinstance(given, ast.Call | ast.BinOp)]
        for part in (each for given in computed for each in ast.walk(given)):
            if isinstance(part, ast.Call) and dotted(part.func) == "len" and part.args:
                yield from (one for one in self.values.of(part.args[0], at) if one.kind is Kind.DATASET)

    def _yields_numbers(self, node: ast.expr, at: At) -> bool:
        """Whether a loop goes over a generator of the program that counts: `yield n` in a loop over a range."""
        target = self.values.meaning(node, at).target if isinstance(node, ast.Call) else None
        if target is None or not target.yields:
            return False
        counted = {
            name
            for loop in target.loops
            if isinstance(loop.node, ast.For)
            and isinstance(loop.node.iter, ast.Call)
            and isinstance(loop.node.target, ast.Name)
            for name in [loop.node.target.id]
            if dotted(loop.node.iter.func).rpartition(".")[2] in {"range", "count", "trange"}
        }
        return all(isinstance(value, ast.Name) and value.id in counted for value, _, _ in target.yields)

    def _starts(self, node: ast.For | ast.AsyncFor, at: At) -> Value | None:
        counted = node.iter
        while isinstance(counted, ast.Call) and dotted(counted.func).rpartition(".")[2] in _GO_OVER and counted.args:
            counted = counted.args[0]
        if isinstance(counted, ast.Call) and dotted(counted.func) in _RANGES and len(counted.args) > 1:
            return value_of(self.values, counted.args[0], at)
        return None

    def _counted_from(self, raw: RawLoop, scope: Scope) -> Value | None:
        """What the count of `while step < steps` is before the loop, whose body adds to it."""
        match raw.node:
            case ast.While(test=ast.Compare(left=ast.Name() | ast.Attribute() as count, ops=[ast.Lt() | ast.LtE()])):
                given = scope.definitions.get(dotted(count), [])
            case _:
                return None
        if not any(one.operator == "Add" and one.block.inside(raw.body) for one in given):
            return None
        found = value_of(self.values, count, At(scope, raw.order, raw.block))
        first = given[0]
        if first.order > raw.order or first.value is None or len(first.index) > 1:
            return found
        whole = first.value
        part = self.values.substitutions.element(whole, first.index[0]) if first.index else whole
        return replace(found, text=self.values.text(part, scope)) if part is not None else found


def _bound_in_loops(scope: Scope) -> dict[int, dict[str, None]]:
    """By the body of a loop, the names and attributes that are assigned to in it, in the order of the definitions."""
    found: dict[int, dict[str, None]] = {}
    for key, given in scope.definitions.items():
        for at in {around for one in given for around in one.block.chain() if around.form in LOOPS}:
            found.setdefault(id(at), {})[key] = None
    return found


def _counts(node: ast.expr, name: str) -> tuple[bool, int | None]:
    last = name.rpartition(".")[2]
    if isinstance(node, ast.Call) and last in _GO_OVER | {"trange"} and node.args:
        if last == "trange":
            return True, None
        inner = node.args[0]
        return _counts(inner, dotted(inner.func) if isinstance(inner, ast.Call) else "")
    if last not in {"range", "count", "trange"}:
        return False, None
    given = node.args if isinstance(node, ast.Call) else []
    if last == "range" and len(given) == 1 and isinstance(given[0], ast.Constant) and isinstance(given[0].value, int):
        return True, given[0].value
    return True, None
