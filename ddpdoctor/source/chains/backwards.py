"""What an expression comes from, one step back: through names, attributes, calls and tests, over all functions of a program.

More is given rather than less: each value that an expression may have, whatever object it is of. What a finding shows is decided
only where nothing else remains.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence

from ddpdoctor.source.chains.attributes import Attributes
from ddpdoctor.source.chains.calls import MOST_CALLERS
from ddpdoctor.source.chains.points import Edge, Point
from ddpdoctor.source.dataflow.callers import rest_at, rest_name
from ddpdoctor.source.dataflow.reaching_definitions import END, reaching
from ddpdoctor.source.names.dotted_names import dotted, names_in
from ddpdoctor.source.names.rank_names import RANK_AND_SIZE
from ddpdoctor.source.program.index import Site, given_at
from ddpdoctor.source.program.methods import takes_its_object
from ddpdoctor.source.syntax.scopes import Definition, RawCall, Scope

_CONVERTS = frozenset(
    {"int", "str", "float", "bool", "list", "tuple", "iter", "next", "Path", "len", "enumerate", "tqdm"}
)
_HOLDS_DATA = ("Dataset", "Subset")
"""How the names of classes end whose objects are as long as what they are made of."""
_SAME_MODEL = frozenset(
    {"to", "cuda", "cpu", "train", "eval", "float", "half", "bfloat16", "double", "compile", "requires_grad_"}
)
_WRAPS = frozenset(
    {"DistributedDataParallel", "DDP", "DataParallel", "FullyShardedDataParallel", "FSDP", "fully_shard"}
)
_EQUAL = ("broadcast", "all_reduce", "all_gather", "barrier_value")
_OF_MODELS = frozenset({"parameters", "named_parameters", "modules", "named_modules", "children", "named_children"})
"""What DDP has found to be of the same number and shape on all ranks."""
_CHANGES = frozenset({"append", "extend", "add", "insert", "update", "remove", "pop", "clear", "setdefault"})


class Backwards(Attributes):
    """Steps back through the program that `index` has."""

    def steps(self, point: Point) -> Sequence[Edge]:
        """What the expression comes from; nothing where that is being asked for already."""
        if point.key not in self._known_steps:
            self._known_steps[point.key] = point, ()
            self._known_steps[point.key] = point, tuple(self._steps(point))
        return self._known_steps[point.key][1]

    def _steps(self, point: Point) -> Iterator[Edge]:
        match point.node:
            case ast.Constant():
                return
            case ast.Name(id=name):
                yield from self._name(name, point)
            case ast.Attribute():
                yield from self._attribute(point.node, point)
            case ast.Call():
                yield from self._call(point.node, point)
            case ast.Subscript(value=owner, slice=key):
                yield from self._item(owner, key, point)
            case ast.IfExp(test=test, body=body, orelse=orelse):
                yield Edge(point.at(test), is_test=True)
                yield Edge(point.at(body), is_same=True)
                yield Edge(point.at(orelse), is_same=True)
            case ast.BoolOp(values=parts) | ast.Tuple(elts=parts) | ast.List(elts=parts):
                yield from (Edge(point.at(part), is_same=True) for part in parts)
            case ast.Starred(value=value) | ast.NamedExpr(value=value) | ast.Await(value=value):
                yield Edge(point.at(value), is_same=True)
            case ast.ListComp() | ast.SetComp() | ast.GeneratorExp() | ast.DictComp():
                yield from self._comprehension(point.node, point)
            case ast.Lambda(body=body):
                yield Edge(point.at(body))
            case _:
                yield from (Edge(point.at(part)) for part in _parts(point.node))

    # names

    def _name(self, name: str, point: Point) -> Iterator[Edge]:
        scope: Scope | None = point.scope
        order, block = point.order, point.block
        while scope is not None:
            if not scope.is_class or scope is point.scope:
                here = point.entered if scope is point.scope else ()
                place = Point(point.node, scope, order, block, here)
                given = scope.definitions.get(name)
                if given and not (
                    len(given) == 1 and given[0].form == "def" and name in (*scope.functions, *scope.classes)
                ):
                    found, always = reaching(given, order, block)
                    if any(self._is_made_equal(name, one, place) for one in found):
                        return
                    yield from self.given(found, place)
                    yield from self._changed(name, place)
                    if not always and name in scope.parameters:
                        yield from self._parameter(name, place)
                    return
                if name in scope.parameters:
                    if not self._is_made_equal(name, None, place):
                        yield from self._parameter(name, place)
                        yield from self._changed(name, place)
                    return
                if name in _rests(scope):
                    yield from self._rest(name, place)
                    return
                if name in scope.imports:
                    yield from self._imported(name, scope)
                    return
            order, block = END, scope.parent.root if scope.parent is not None else scope.root
            scope = scope.parent

    def _imported(self, name: str, scope: Scope) -> Iterator[Edge]:
        meant = self.index.project.resolve(scope, name)
        if isinstance(meant, tuple):
            module, variable = meant
            place = Point(ast.Name(variable, ast.Load()), module, END, module.root)
            yield from self.given(module.definitions.get(variable, ()), place)

    def given(self, definitions: Sequence[Definition], at: Point) -> Iterator[Edge]:
        """What these assignments give, and the tests that decide whether they do."""
        for definition in definitions:
            yield from self._value(definition, at)
            yield from self.deciding(definition.block, definition.order, at, beside=at.block, line=definition.line)

    def _value(self, definition: Definition, at: Point) -> Iterator[Edge]:
        value = definition.value
        if value is None:
            return
        place = at.of(value, definition.order, definition.block)
        if definition.index and definition.form == "assign":
            yield from self._element(value, definition.index, place)
            return
        if (
            definition.index
            and definition.form == "for"
            and (beside := _beside(value, definition.index[0])) is not None
        ):
            yield from (Edge(place.at(one), is_same=True) for one in beside)
            return
        is_same = definition.form in {"assign", "for", "with"} and not _counts(definition)
        yield Edge(place, is_same=is_same)

    def _element(self, value: ast.expr, index: tuple[int, ...], at: Point) -> Iterator[Edge]:
        """The part of a tuple that an assignment to several names gives one of them."""
        for one, place in self._displays(value, at):
            if isinstance(one, ast.Tuple | ast.List) and 0 <= index[0] < len(one.elts):
                yield Edge(place.at(one.elts[index[0]]), is_same=True)
            elif isinstance(one, ast.Call) and dotted(one.func).rpartition(".")[2] in RANK_AND_SIZE:
                if index[0] == 0:
                    yield Edge(place.at(one), is_same=True)
            else:
                yield Edge(place.at(one), is_same=True)

    def _displays(self, value: ast.expr, at: Point) -> Iterator[tuple[ast.expr, Point]]:
        called = self.function(value, at) if isinstance(value, ast.Call) else None
        if called is None or called[0].is_class or not called[0].returns:
            yield value, at
            return
        function, site = called
        for given, order, block in function.returns:
            yield given, Point(given, function, order + 1, block, at.inside(function, site))

    def _changed(self, name: str, at: Point) -> Iterator[Edge]:
        """What calls put into an object: `(decay if p.ndim > 1 else plain).append(p)`, `fill(config, rank)`."""
        for call in self._touching(at.scope).get(name, ()):
            if call.order > at.order or at.block.excludes(call.block):
                continue
            node = call.node
            if isinstance(node.func, ast.Attribute) and node.func.attr in _CHANGES and not dotted(node.func.value):
                if name in names_in(node.func.value):
                    place = at.of(node, call.order, call.block)
                    yield from (Edge(place.at(one)) for one in node.args)
                    yield Edge(place.at(node.func.value), is_test=True)
                    yield from self.deciding(call.block, call.order, at, beside=at.block)
            elif call.target is not None:
                yield from self._changed_inside(name, call, at)

    def _changed_inside(self, name: str, call: RawCall, at: Point) -> Iterator[Edge]:
        """What a function of the program assigns to attributes and keys of an object that it is given."""
        function = call.target
        if function is None:
            return
        site = self.site(at.scope, call, function)
        for parameter in function.parameters:
            given = given_at(site, parameter, function.parameters.index(parameter))
            if given is None or dotted(given) != name:
                continue
            for key, definitions in function.definitions.items():
                if key.startswith((f"{parameter}.", f"{parameter}[")) or (
                    key == parameter and any(one.form == "change" for one in definitions)
                ):
                    place = Point(at.node, function, END, function.root, at.inside(function, site))
                    yield from self.given(definitions, place)

    def _is_made_equal(self, name: str, definition: Definition | None, at: Point) -> bool:
        """Whether a collective gives all ranks the same after the assignment: `dist.broadcast_object_list(folder)`."""
        since = definition.order if definition is not None else 0
        return any(
            since < call.order < at.order
            and call.last.startswith(_EQUAL)
            and any(dotted(one) == name for one in call.node.args[:2])
            and at.block.inside(call.block)
            for call in self._touching(at.scope).get(name, ())
        )

    def _touching(self, scope: Scope) -> dict[str, list[RawCall]]:
        """By name the calls that may change what it holds: it is given to them, or a part of what they are a method of."""
        found = self._known_touching.get(id(scope))
        if found is None:
            found = self._known_touching[id(scope)] = {}
            for call in scope.calls:
                owner = call.node.func.value if isinstance(call.node.func, ast.Attribute) else None
                names = {*names_in(owner)} if owner is not None and not dotted(owner) else set()
                if call.target is not None or call.last.startswith(_EQUAL):
                    names |= {dotted(one) for one in (*call.node.args, *(one.value for one in call.node.keywords))}
                for name in names:
                    found.setdefault(name, []).append(call)
        return found

    # parameters

    def _parameter(self, name: str, at: Point) -> Iterator[Edge]:
        function = at.scope
        if function.parameters and name == function.parameters[0] and takes_its_object(function):
            return
        position = function.parameters.index(name)
        for site, place in self._ways_into(at):
            given = given_at(site, name, position)
            call = site.call
            if given is not None:
                yield Edge(place.at(given), is_same=True)
            elif site.spawned and position < site.first:
                continue
            else:
                rest = [one.value for one in call.node.keywords if one.arg is None]
                rest += [one for one in call.node.args if isinstance(one, ast.Starred)]
                yield from (Edge(place.at(one)) for one in rest)
        default = function.defaults.get(name)
        if default is not None and function.parent is not None and function.defined_at is not None:
            order, block = function.defined_at
            yield Edge(Point(default, function.parent, order, block), is_same=True)

    def _rest(self, name: str, at: Point) -> Iterator[Edge]:
        """What calls give for `*names` and `**options`."""
        for site, place in self._ways_into(at):
            given = rest_at(at.scope, site) if name == rest_name(at.scope) else [value for _, value in site.keywords]
            yield from (Edge(place.at(one), is_same=True) for one in given)

    def _ways_into(self, at: Point) -> Iterator[tuple[Site, Point]]:
        """The calls of a function, or that by which it was entered."""
        function = at.scope
        sites, outer = self.sites(function), at.entered[:0]
        if at.entered and at.entered[-1][0] is function:
            sites, outer = [at.entered[-1][1]], at.entered[:-1]
        for site in sites[:MOST_CALLERS]:
            yield site, Point(site.call.node, site.caller, site.call.order, site.call.block, outer)

    def _attribute(self, node: ast.Attribute, point: Point) -> Iterator[Edge]:
        key = dotted(node)
        given = point.scope.definitions.get(key) if key else None
        if given and not key.startswith(("self.", "cls.")):
            found, always = reaching(given, point.order, point.block)
            yield from self.given(found, point)
            if always:
                return
        edges = self.held(node.value, node.attr, point)
        if edges is None:
            edges = [Edge(point.at(node.value), is_same=True)]
        yield from edges
        owner = dotted(node.value).rpartition(".")[2]
        if owner and owner not in {"self", "cls"}:
            for scope, definition, _ in self.index.fields.get((owner, node.attr), ()):
                if scope is not point.scope:
                    yield from self.given([definition], Point(point.node, scope, END, scope.root))

    # items and calls

    def _item(self, owner: ast.expr, key: ast.expr, point: Point) -> Iterator[Edge]:
        name = dotted(owner)
        if name and isinstance(key, ast.Constant):
            given = point.scope.definitions.get(f"{name}[{key.value!r}]")
            if given:
                yield from self.given(reaching(given, point.order, point.block)[0], point)
        if isinstance(owner, ast.Dict) and isinstance(key, ast.Constant):
            items = zip(owner.keys, owner.values, strict=True)
            yield from (
                Edge(point.at(value), is_same=True)
                for one, value in items
                if one is None or (isinstance(one, ast.Constant) and one.value == key.value)
            )
            return
        if name.endswith("environ"):
            yield Edge(point.at(key), is_same=True)
            return
        is_element = isinstance(key, ast.Constant | ast.UnaryOp)
        yield Edge(point.at(owner), is_same=is_element)
        yield Edge(point.at(key))

    def _comprehension(
        self, node: ast.ListComp | ast.SetComp | ast.GeneratorExp | ast.DictComp, point: Point
    ) -> Iterator[Edge]:
        inner = point.of(node, END, point.block)  # its own names are defined right behind
        parts = (node.key, node.value) if isinstance(node, ast.DictComp) else (node.elt,)
        yield from (Edge(inner.at(part), is_same=True) for part in parts)
        for each in node.generators:
            yield Edge(point.at(each.iter))
            yield from (Edge(inner.at(test), is_test=True) for test in each.ifs)

    def _call(self, node: ast.Call, point: Point) -> Iterator[Edge]:
        last = dotted(node.func).rpartition(".")[2] or getattr(node.func, "attr", "")
        if last in _SAME_MODEL and isinstance(node.func, ast.Attribute):
            yield Edge(point.at(node.func.value), is_same=True)
            return
        if last in _OF_MODELS:
            return
        if last in _WRAPS:
            given = [one.value for one in node.keywords if one.arg == "module"]
            yield from (Edge(point.at(one), is_same=True) for one in (*node.args[:1], *given))
            return
        called = self.function(node, point)
        if called is not None and not called[0].is_class:
            yield from self._returned(*called, point)
            return
        is_data = called is not None and self.index.project.is_a(called[0], *_HOLDS_DATA, "IterableDataset")
        is_same = last in _CONVERTS or is_data or last.endswith(_HOLDS_DATA) or _looks_up(node)
        if isinstance(node.func, ast.Attribute) and not _looks_up(node):
            held = self.held(node.func.value, node.func.attr, point)
            yield Edge(point.at(node.func if held else node.func.value))
        elif not isinstance(node.func, ast.Name | ast.Attribute):
            yield Edge(point.at(node.func))
        yield from (Edge(point.at(one), is_same=is_same) for one in node.args)
        yield from (Edge(point.at(one.value)) for one in node.keywords)

    def _returned(self, function: Scope, site: Site | None, point: Point) -> Iterator[Edge]:
        within = point.inside(function, site)
        for value, order, block in (*function.returns, *function.yields):
            place = Point(value, function, order + 1, block, within)
            yield Edge(place, is_same=True)
            yield from self.deciding(block, order, place)


def _beside(value: ast.expr, index: int) -> Sequence[ast.expr] | None:
    """What one of several names of a loop goes over, where the loop says so: of `zip(a, b)` one, of `enumerate(a)` no number."""
    match value:
        case ast.Call(func=ast.Name(id="zip"), args=given) if 0 <= index < len(given):
            return given[index : index + 1]
        case ast.Call(func=ast.Name(id="enumerate"), args=given):
            return given[:1] if index else ()
    return None


def _rests(scope: Scope) -> tuple[str, ...]:
    """The names of `*names` and `**options` of a function."""
    given = getattr(scope.node, "args", None)
    return tuple(one.arg for one in (getattr(given, "vararg", None), getattr(given, "kwarg", None)) if one is not None)


def _parts(node: ast.expr) -> Iterator[ast.expr]:
    """The expressions right below a node."""
    pending: list[ast.AST] = [*ast.iter_child_nodes(node)]
    while pending:
        at = pending.pop(0)
        if isinstance(at, ast.expr):
            yield at
        else:
            pending.extend(ast.iter_child_nodes(at))


def _counts(definition: Definition) -> bool:
    """Whether a loop's variable is a number that `range` counts."""
    value = definition.value
    return definition.form == "for" and isinstance(value, ast.Call) and dotted(value.func) in {"range", "enumerate"}


def _looks_up(node: ast.Call) -> bool:
    """Whether a call reads a variable of the environment: `os.environ.get(name)`, `os.getenv(name)`."""
    name = dotted(node.func)
    return name.endswith(("environ.get", "getenv", "env.get"))
