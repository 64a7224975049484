"""The facts about one function: its calls that matter, its loops and its exits, with the tests around them."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from operator import attrgetter

from ddpdoctor.evidence.code_values import RANK_KINDS, Kind, Value
from ddpdoctor.evidence.training_code import Call, Cut, Exit, Function, Guard
from ddpdoctor.source.dataflow.decided_branches import is_dead
from ddpdoctor.source.dataflow.lengths import is_even
from ddpdoctor.source.dataflow.origins import At
from ddpdoctor.source.dataflow.returned_values import returned
from ddpdoctor.source.dataflow.values import Values
from ddpdoctor.source.facts.call_facts import CallFacts
from ddpdoctor.source.facts.change_facts import ChangeFacts
from ddpdoctor.source.facts.framework_hooks import FrameworkHooks
from ddpdoctor.source.facts.guards import value_of
from ddpdoctor.source.facts.loop_facts import LoopFacts
from ddpdoctor.source.facts.surroundings import Surroundings
from ddpdoctor.source.facts.write_facts import WriteFacts
from ddpdoctor.source.names.dotted_names import dotted
from ddpdoctor.source.syntax.divisions import first_parts, leaves_out_a_part
from ddpdoctor.source.syntax.scopes import RawExit, Scope


@dataclass(eq=False)
class FunctionFacts:
    """Makes the facts about the functions of one run."""

    values: Values
    """Tells what expressions of these functions can be."""
    started: frozenset[int] = frozenset()
    """The functions that processes are started with, by `id()` of their scopes."""

    def __post_init__(self) -> None:
        """Nothing is known of any test or block yet."""
        self.places = Surroundings(self.values)
        self.guards = self.places.guards
        self._hooks = FrameworkHooks(self.values, self.guards)
        self._calls = CallFacts(self.values, self.places)
        self._writes = WriteFacts(self.values, self.places)
        self._loops = LoopFacts(self.values, self.places)
        self._changes = ChangeFacts(self.values, self.places)

    def of(self, scope: Scope) -> Iterator[Function]:
        """The facts about one function: once, or once for each call that it is looked at by."""
        for context in self.values.contexts.of(scope) or (None,):
            yield self.values.within(context, lambda: self._of(scope))

    def loads(self, scope: Scope) -> Iterator[Call]:
        """Where a function loads weights into a model."""
        yield from self._calls.named("load_state_dict", scope)

    def _of(self, scope: Scope) -> Function:
        return Function(
            id=f"{scope.id}{self.places.suffix(scope)}",
            place=self.places.place(scope, scope.node),
            calls=self._called(scope),
            loops=tuple(self._loops.of(scope)),
            exits=tuple(self._exit(raw, scope) for raw in scope.exits if not is_dead(self.values, raw.block, scope)),
            cuts=tuple(self._cuts(scope)),
            divided=tuple(self._divided(scope)),
            changes=tuple(self._changes.of(scope)),
            parameters=scope.parameters,
            rebound=tuple(name for name in scope.parameters if name in scope.definitions),
            length=self._length(scope),
            counted=self._counted(scope),
            guards=tuple(self.guards.of_decorators(scope)),
            decorators=tuple(self._full(scope, decorator) for decorator in scope.decorators),
            within=self._defined_within(scope),
            tests=tuple(guard for block in scope.tests if (guard := self.guards.uncalled(block, scope)) is not None),
            overrides=self._overrides(scope),
            entry=scope.parent is None or id(scope) in self.started or self._hooks.is_hook(scope),
            loss=self._loss(scope),
            hook=self._hooks.framework(scope),
        )

    def _called(self, scope: Scope) -> tuple[Call, ...]:
        """The calls of a function that may matter, and its assignments that are calls of a method."""
        writes = tuple(self._writes.of(scope))
        calls = tuple(self._calls.of(scope))
        return tuple(sorted((*calls, *writes), key=attrgetter("order"))) if writes else calls

    def _loss(self, scope: Scope) -> Value | None:
        if not scope.returns or not self._hooks.gives_a_loss(scope):
            return None
        return Value(text=self.values.text(scope.returns[-1][0], scope), origins=returned(self.values, scope))

    def _defined_within(self, scope: Scope) -> tuple[Guard, ...]:
        if scope.parent is None or scope.defined_at is None or not scope.decorators:
            return ()
        order, block = scope.defined_at
        return self.guards.around(block, order, scope.parent)

    def _overrides(self, scope: Scope) -> str:
        cls = scope.parent
        for base in self.values.project.bases(cls) if cls is not None and cls.is_class else ():
            if isinstance(base, Scope) and (found := self.values.project.method(base, scope.name)) is not None:
                return found.id
        return ""

    def _length(self, scope: Scope) -> str:
        only = scope.returns[0][0] if scope.name == "__len__" and len(scope.returns) == 1 else None
        return self.values.text(only, scope)

    def _counted(self, scope: Scope) -> Value | None:
        match scope.returns if scope.name == "__len__" else ():
            case [(ast.Call(func=ast.Name(id="len"), args=[listed]), order, block)]:
                return value_of(self.values, listed, At(scope, order, block))
        return None

    def _cuts(self, scope: Scope) -> Iterator[Cut]:
        for raw in scope.cuts:
            at = At(scope, raw.order, raw.block)
            bounds = [origin for part in raw.parts for origin in self.values.of(part, at)]
            ranks = [origin for origin in bounds if origin.kind in RANK_KINDS]
            certain = [origin for origin in ranks if origin.note != "uncertain"]
            if certain:
                whole, text = value_of(self.values, raw.whole, at), self.values.text(raw.node, scope)
                place = self.places.place(scope, raw.node)
                yield Cut(
                    place=place,
                    text=text,
                    whole=whole,
                    by=certain[0],
                    of=next((one for one in bounds if one.kind in {Kind.WORLD_SIZE, Kind.DEVICE_COUNT}), None),
                    even=is_even(self.values, raw.whole, at),
                    strided=_is_strided(raw.node),
                )

    def _divided(self, scope: Scope) -> Iterator[str]:
        """The calls that draw an order, or shuffle a list, of which the function takes the first part and the rest."""
        for raw, parted in first_parts(scope):
            drawn = [one for one in self.values.of(raw.whole, At(scope, raw.order, raw.block)) if one.note == "drawn"]
            if drawn and (parted or leaves_out_a_part(scope, dotted(raw.whole))):
                yield from (one.made for one in drawn)

    def _exit(self, raw: RawExit, scope: Scope) -> Exit:
        return Exit(
            place=self.places.place(scope, raw.node),
            form=raw.form,
            order=raw.order,
            fails=raw.fails,
            since=raw.since,
            empty=isinstance(raw.node, ast.Return) and _is_none(raw.node.value),
            guards=self.guards.around(raw.block, raw.order, scope),
            loops=self.places.loops_around(raw.block, scope),
        )

    def _full(self, scope: Scope, decorator: ast.expr) -> str:
        node = decorator.func if isinstance(decorator, ast.Call) else decorator
        name = dotted(node)
        meant = self.values.project.resolve(scope.parent or scope, name) if name else name
        return meant.id if isinstance(meant, Scope) else meant if isinstance(meant, str) else name


def _is_strided(cut: ast.expr) -> bool:
    """Whether a part of a list has a step, or takes the items of which a remainder says so."""
    if isinstance(cut, ast.Subscript) and isinstance(cut.slice, ast.Slice):
        return cut.slice.step is not None
    if isinstance(cut, ast.Call):
        return len(cut.args) > 3
    return any(isinstance(part, ast.Mod) for part in ast.walk(cut))


def _is_none(node: ast.expr | None) -> bool:
    return node is None or (isinstance(node, ast.Constant) and node.value is None)
