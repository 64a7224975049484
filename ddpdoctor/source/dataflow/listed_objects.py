"""Objects of the program's classes in a list that a loop goes over: callbacks, hooks, stages."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property

from ddpdoctor.evidence.code_values import RANK_KINDS, Kind, Origin
from ddpdoctor.source.dataflow.callers import position_of, rest_at, rest_name, ways_into
from ddpdoctor.source.dataflow.listed_functions import method_asked_for
from ddpdoctor.source.dataflow.origins import At, without_context
from ddpdoctor.source.dataflow.parameters import given_to
from ddpdoctor.source.dataflow.values import Values
from ddpdoctor.source.names.dotted_names import dotted
from ddpdoctor.source.program.calling_contexts import CallingContext
from ddpdoctor.source.program.classes import class_named
from ddpdoctor.source.syntax.scopes import Block, Definition, RawCall, Scope

MOST_HOPS = 8  # names, parameters, attributes and functions from a loop to where its list is written
MOST_ADDITIONS = 24
_ADDS = {"append": 0, "insert": 1, "extend": 0}
_SHRINKS = ("clear", "pop", "remove")
_OF_SOME = RANK_KINDS | {Kind.LOCAL, Kind.SOME_RANKS}


@dataclass(frozen=True, slots=True)
class Listed:
    """What a program puts into a list, and where it does so."""

    at: At
    """The place where it is put in: the tests around it say which ranks do."""
    object: Origin | None
    """The object; None where its class is not one of the program."""


@dataclass(eq=False)
class ListedObjects:
    """Follows lists to where they are written: each has one definition, and is added to alone.

    All else is not followed: another definition, a part, or a choice, may be what some ranks alone have.
    """

    values: Values
    """Tells what is put into a list."""
    _loops: dict[tuple[int, int], list[Listed]] = field(default_factory=dict)
    """What is in the lists that loops go over, by the expression and the context."""
    _calls: dict[int, dict[int, RawCall]] = field(default_factory=dict)
    """Of each function, its calls by their numbers."""
    _given: dict[int, dict[str, list[RawCall]]] = field(default_factory=dict)
    """Of each function, its calls by the names that they are given."""

    def of(self, node: ast.expr, at: At) -> list[Listed]:
        """What is in a list, with the place where each is put in; nothing where no object or not all of that is known."""
        found = self._list(node, at, MOST_HOPS)
        if found is None or len(found) > MOST_ADDITIONS:
            return []
        ranks = {tests for each in found if (tests := self._tests_of_ranks(each.at))}
        return found if len(ranks) <= 1 and any(each.object is not None for each in found) else []

    def _of_loop(self, node: ast.expr, at: At) -> list[Listed]:
        """The same of what a loop of the program goes over, sought once."""
        key = (id(node), id(self.values.context_in(at.scope)))
        if key not in self._loops:
            self._loops[key] = self.of(node, at)
        return self._loops[key]

    def methods_of_each(self, node: ast.Call, at: At) -> Iterator[tuple[Scope, At]]:
        """The methods that a call of a loop's variable stands for, and where the object of each is put into the list."""
        func = method_asked_for(self.values, node, at)
        if func is None or not isinstance(func.value, ast.Name):
            return
        loops = [one for one in at.scope.definitions.get(func.value.id, ()) if one.form == "for"]
        held = (
            {without_context(one.made) for one in self.values.of(func.value, at) if one.kind is Kind.INSTANCE}
            if loops
            else set()
        )
        for loop in loops if held else ():
            over = gone_over(loop.value, loop.index)
            for each in self._of_loop(over, At(at.scope, loop.order, loop.block)) if over is not None else ():
                cls = class_named(self.values.project, each.object.note) if each.object is not None else None
                method = self.values.project.method(cls, func.attr) if cls is not None else None
                if method is not None and each.object is not None and without_context(each.object.made) in held:
                    yield method, each.at

    def _list(self, node: ast.expr | None, at: At, hops: int) -> list[Listed] | None:
        """All that is put into a list; None where it may be another list, or is none."""
        match node if hops else None:
            case ast.List(elts=parts) | ast.Tuple(elts=parts):
                found = [self._element(part, at) for part in parts]
                return None if None in found else [each for each in found if each is not None]
            case ast.Name(id=name):
                return self._name(name, at, hops - 1)
            case ast.Attribute(value=ast.Name(id="self"), attr=name):
                return self._attribute(name, at, hops - 1)
            case ast.BoolOp(op=ast.Or(), values=[whole, ast.List(elts=[])]):
                return self._list(whole, at, hops - 1)
            case ast.BinOp(op=ast.Add(), left=left, right=right):
                first, second = self._list(left, at, hops - 1), self._list(right, at, hops - 1)
                return [*first, *second] if first is not None and second is not None else None
            case ast.IfExp(body=left, orelse=right):
                first, second = self._list(left, at, hops - 1), self._list(right, at, hops - 1)
                return [*first, *second] if first is not None and second is not None else None
            case ast.Call(func=ast.Name(id="list" | "tuple" | "reversed" | "sorted"), args=[whole]):
                return self._list(whole, at, hops - 1)
            case ast.Call() as call:
                return self._returned(call, at, hops - 1)
        return None

    def _element(self, node: ast.expr, at: At) -> Listed | None:
        """What one expression puts into a list; None where it may be one of several objects."""
        if isinstance(node, ast.Name):
            given = at.scope.definitions.get(node.id, ())
            if not given and node.id in at.scope.parameters:
                return Listed(at, None)
            if len(given) != 1 or given[0].form != "assign" or given[0].index or node.id in at.scope.parameters:
                return None
            made = At(at.scope, given[0].order, given[0].block)
            one = self._element(given[0].value, made) if isinstance(given[0].value, ast.Call) else None
            return Listed(at, one.object) if one is not None and not self._tests_of_ranks(made) else None
        if not isinstance(node, ast.Call):
            return None
        raw = next((call for call in at.scope.calls if call.node is node), None)
        at = (
            At(at.scope, raw.order, raw.block) if raw is not None else at
        )  # in its branch of `[Report()] if first else []`
        found = self.values.of(node, at)
        its = found[0] if len(found) == 1 and found[0].kind is Kind.INSTANCE else None
        own = (
            its is not None
            and its.made == self.values.where(node, at.scope)
            and class_named(self.values.project, its.note)
        )
        return Listed(at, its if own else None)

    def _name(self, name: str, at: At, hops: int) -> list[Listed] | None:
        scope = at.scope
        definitions = scope.definitions.get(name, [])
        if (
            name in scope.globals
            or len(definitions) > MOST_ADDITIONS
            or any(one.order > at.order for one in definitions)
        ):
            return None
        found = self._held(name, [(scope, one, name) for one in definitions], scope, hops)
        return found if not found or not self._is_given_away(name, scope) else None

    def _held(
        self, name: str, given: list[tuple[Scope, Definition, str]], scope: Scope, hops: int
    ) -> list[Listed] | None:
        """What a variable or a parameter of a function holds."""
        if name == rest_name(scope) and not given:
            return self._rest(scope, 1)
        if name not in scope.parameters:
            return self._defined(name, given, hops, scope.file)
        sites, around = ways_into(self.values, scope)
        if len(sites) != 1 or sites[0].spawned:
            return None
        found = given_to(self.values, sites[0], name, position_of(scope, name))
        if found is None:
            return None
        given = [each for each in given if not self._is_empty(each[1], scope)]
        held = self.values.within(around, lambda: self._list(*found, hops))
        added = self._defined(name, given, hops, scope.file, parameter=True)
        return [*held, *added] if held is not None and added is not None else None

    def _attribute(self, name: str, at: At, hops: int) -> list[Listed] | None:
        cls, index = at.scope.of_class, self.values.index
        if cls is None or self.values.code.assigned_outside(cls, name):
            return None
        bases = [base for base in self.values.project.bases(cls) if isinstance(base, Scope)]
        if any((id(one), name) in index.attributes for one in (*bases, *index.below.get(id(cls), ()))):
            return None
        return self._defined(name, index.attributes.get((id(cls), name), []), hops, cls.file)

    def _defined(
        self, name: str, given: list[tuple[Scope, Definition, str]], hops: int, file: str, *, parameter: bool = False
    ) -> list[Listed] | None:
        """What one assignment, and all that is added to it, put into a list of this name."""
        assigned = [each for each in given if each[1].form == "assign"]
        if len(assigned) != (0 if parameter else 1) or len(given) > MOST_ADDITIONS:
            return None
        if not self._shrunk.get(name, set()).isdisjoint(self.values.code.files_near(file)):
            return None
        found: list[Listed] = []
        for scope, one, _ in given:
            at = At(scope, one.order, one.block)
            more = self._put(one, at, hops)
            if more is None or (one.form == "assign" and self._tests_of_ranks(at)):
                return None
            found += more
        return found

    def _put(self, one: Definition, at: At, hops: int) -> list[Listed] | None:
        """What a statement puts into a list."""
        if one.form == "assign" or (one.form == "augment" and one.operator == "Add"):
            part = self.values.substitutions.element(one.value, one.index[0]) if one.value and one.index else one.value
            return self._list(part, at, hops) if len(one.index) < 2 else None
        if one.form == "sorted":
            return []
        call = self._calls_of(at.scope).get(one.order) if one.form == "change" else None
        func = call.node.func if call is not None else None
        if call is None or not isinstance(func, ast.Attribute) or func.attr not in _ADDS:
            return None
        place = _ADDS[func.attr]
        if len(call.node.args) != place + 1:
            return None
        added = call.node.args[place]
        if func.attr != "extend":
            return self._added(added, at)
        of_callers = isinstance(added, ast.Name) and added.id == rest_name(at.scope) and not self._tests_of_ranks(at)
        return self._rest(at.scope, MOST_ADDITIONS) if of_callers else self._list(added, at, hops)

    def _added(self, node: ast.expr, at: At) -> list[Listed] | None:
        """What `append` puts into a list: of a parameter, as in `def register(self, hook)`, what all callers give."""
        scope, name = at.scope, node.id if isinstance(node, ast.Name) else ""
        if name in scope.parameters and name not in scope.definitions and not self._tests_of_ranks(at):
            sites, around = ways_into(self.values, scope)
            given = [given_to(self.values, site, name, position_of(scope, name)) for site in sites]
            if found := self._elements([each or (node, at) for each in given], around):
                return found
        element = self._element(node, at)
        return [element] if element is not None else None

    def _rest(self, scope: Scope, most: int) -> list[Listed] | None:
        """What the callers of a function give for `*rest`; None where more of them do."""
        sites, around = ways_into(self.values, scope)
        if not 0 < len(sites) <= most:
            return None
        places = [(site, At(site.caller, site.call.order, site.call.block)) for site in sites]
        return self._elements([(node, at) for site, at in places for node in rest_at(scope, site)], around)

    def _elements(self, given: list[tuple[ast.expr, At]], around: CallingContext | None) -> list[Listed] | None:
        """What expressions put into a list one by one; None where one of them may be several objects."""
        if len(given) > MOST_ADDITIONS:
            return None
        found = self.values.within(around, lambda: [self._element(*each) for each in given])
        return None if None in found else [each for each in found if each is not None]

    def _returned(self, node: ast.Call, at: At, hops: int) -> list[Listed] | None:
        """What is in the list that a function of the program gives back by its only `return`."""
        function = self.values.index.target(at.scope, dotted(node.func)) if dotted(node.func) else None
        if function is None or function.name == "__init__" or len(function.returns) != 1 or function.generator:
            return None
        value, order, block = function.returns[0]
        inner = At(function, order + 1, block)
        return self._list(value, inner, hops) if not self._tests_of_ranks(inner) else None

    def _is_empty(self, one: Definition, scope: Scope) -> bool:
        """Whether an assignment puts an empty list where a parameter was None, on all ranks."""
        empty = one.form == "assign" and isinstance(one.value, ast.List) and not one.value.elts
        return empty and not self._tests_of_ranks(At(scope, one.order, one.block))

    def _is_given_away(self, name: str, scope: Scope) -> bool:
        """Whether some ranks give a list to a call, or a function is given it that takes something out."""
        if id(scope) not in self._given:
            table = self._given[id(scope)] = {}
            for call in scope.calls:
                for each in (*call.node.args, *(one.value for one in call.node.keywords)):
                    if isinstance(each, ast.Name):
                        table.setdefault(each.id, []).append(call)
        given = self._given[id(scope)].get(name, ())
        for call in given if len(given) <= MOST_ADDITIONS else ():
            called = call.target
            near = self.values.code.files_near(called.file) if called is not None else frozenset()
            if any(not self._shrunk.get(one, set()).isdisjoint(near) for one in getattr(called, "parameters", ())):
                return True
            if self._tests_of_ranks(At(scope, call.order, call.block)):
                return True
        return len(given) > MOST_ADDITIONS

    def _calls_of(self, scope: Scope) -> dict[int, RawCall]:
        if id(scope) not in self._calls:
            self._calls[id(scope)] = {call.order: call for call in scope.calls}
        return self._calls[id(scope)]

    @cached_property
    def _shrunk(self) -> dict[str, set[str]]:
        """By the last part of a name, the files in which something is taken out of what has it."""
        found: dict[str, set[str]] = {}
        for name in _SHRINKS:
            for scope, call in self.values.index.methods.get(name, ()):
                owner = call.name.rpartition(".")[0]
                found.setdefault(owner.rpartition(".")[2], set()).add(scope.file)
        for source in self.values.project.sources.values():
            for scope in source.scopes:
                for statement in scope.statements:
                    for target in statement.node.targets if isinstance(statement.node, ast.Delete) else ():
                        owner = dotted(target.value) if isinstance(target, ast.Subscript) else dotted(target)
                        found.setdefault(owner.rpartition(".")[2], set()).add(scope.file)
        return found

    def _tests_of_ranks(self, at: At) -> tuple[str, ...]:
        """The tests that let only some ranks reach a place, as they are written."""
        found = []
        for block in at.block.chain():
            if self._is_of_some(block, at.scope):
                found.append(f"{block.form} {block.branch} {self.values.text(block.test, at.scope)}")
            for order, ended in block.ended[-MOST_ADDITIONS:]:
                if order < at.order and not at.block.inside(ended) and self._is_of_some(ended, at.scope):
                    found.append(f"after {ended.form} {self.values.text(ended.test, at.scope)}")
        return tuple(found)

    def _is_of_some(self, block: Block, scope: Scope) -> bool:
        if block.test is None:
            return False
        test = self.values.of(block.test, At(scope, block.order, block.parent or block))
        return any(one.kind in _OF_SOME for one in test)


def gone_over(node: ast.expr | None, index: tuple[int, ...]) -> ast.expr | None:
    """The list whose items a loop gives to the target at `index`, also through `enumerate`; None where it gives parts of them."""
    if isinstance(node, ast.Call) and dotted(node.func) == "enumerate" and node.args and index[:1] == (1,):
        node, index = node.args[0], index[1:]
    return node if not index else None
