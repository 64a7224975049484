"""What an expression can be, found when it is asked for: follows names, parameters, attributes, and functions across modules."""

from __future__ import annotations

import ast
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from itertools import islice

from ddpdoctor.evidence.training_code import RANK_KINDS, Kind, Link, Origin
from ddpdoctor.source.index import Index, Site
from ddpdoctor.source.project import Project
from ddpdoctor.source.reaching import END, reaching
from ddpdoctor.source.scopes import Block, Definition, RawCall, Scope
from ddpdoctor.source.torch_names import ENVIRONMENT, RANK_CALLS, RANK_NAMES
from ddpdoctor.source.walk import dotted

Origins = tuple[Origin, ...]
MOST_ORIGINS = 10
MOST_SITES = 12
DEEPEST = 60
MOST_STEPS = 5
MOST_TEXT = 70
_QUIET = frozenset({Kind.CONSTANT, Kind.UNKNOWN, Kind.FUNCTION})
TAINTS = RANK_KINDS | {Kind.LOCAL, Kind.WORLD_SIZE, Kind.DEVICE_COUNT, Kind.SHARED, Kind.UNORDERED, Kind.CPU_TENSOR}
_NO_RANK_YET = frozenset({"-1", "0", "None"})
_HELD = frozenset({Kind.MODEL, Kind.WRAPPED, Kind.LOADER, Kind.SAMPLER, Kind.DATASET})
ARGUMENT_OBJECTS = frozenset(
    {
        "args",
        "opt",
        "opts",
        "config",
        "cfg",
        "hparams",
        "hps",
        "flags",
        "FLAGS",
        "params",
        "options",
        "arguments",
        "conf",
        "parsed",
    }
)


@dataclass(frozen=True, slots=True)
class At:
    """Where an expression is asked for."""

    scope: Scope
    order: int
    block: Block


@dataclass(eq=False)
class Values:
    """The evaluator. An answer is a tuple of alternatives, empty where nothing is known."""

    project: Project
    index: Index
    made: dict[str, tuple[RawCall, Scope]] = field(default_factory=dict)
    near: dict[str, frozenset[str]] = field(default_factory=dict)
    """The files of all programs that a file belongs to: attributes of other programs' objects have the same names."""
    meanings: dict[int, object] = field(default_factory=dict)
    """What calls are for, once that is known."""
    wrapped: frozenset[int] = frozenset()
    """The calls of unknown functions and classes that make the models which DDP wraps, by the identity of their nodes."""
    written_out: dict[tuple[int, int], ast.expr | None] = field(default_factory=dict)
    """By comprehension and position, the expression of one element; kept, as known values go by the node's identity."""
    _known: dict[tuple[int, int], Origins] = field(default_factory=dict)
    _functions: dict[str, dict[str, Scope]] = field(default_factory=dict)
    _returned: dict[int, Origins] = field(default_factory=dict)
    _having: dict[str, dict[int, Scope]] = field(default_factory=dict)
    _given: dict[tuple[int, str], Origins] = field(default_factory=dict)
    _methods: dict[tuple[int, str], tuple[bool, list[tuple[Scope, RawCall]]]] = field(default_factory=dict)
    _open: set[tuple[int, int] | tuple[int, str]] = field(default_factory=set)
    _depth: int = 0

    def of(self, node: ast.expr | None, at: At) -> Origins:
        """Every alternative of an expression at a place."""
        if node is None or self._depth > DEEPEST:
            return ()
        key = (id(node), id(at.scope) if at.order == END else at.order)
        if key in self._known:
            return self._known[key]
        if key in self._open:
            return ()
        self._open.add(key)
        self._depth += 1
        try:
            from ddpdoctor.source.expressions import evaluate

            found = joined(evaluate(self, node, at))
        finally:
            self._depth -= 1
            self._open.discard(key)
        self._known[key] = found
        return found

    # names

    def name(self, key: str, at: At) -> Origins:
        """What a name, or a dotted name that is assigned to in this function, can hold."""
        scope: Scope | None = at.scope
        order, block = at.order, at.block
        found: list[Origin] = []
        while scope is not None:
            definitions = scope.definitions.get(key)
            if definitions and (scope is at.scope or not scope.is_class):
                possible, always = reaching(definitions, order, block)
                for definition in possible:
                    found += self._defined(key, definition, scope)
                if always:
                    return joined(found)
            if key in scope.parameters:
                return joined([*found, *self.parameter(scope, key)])
            if key in scope.imports:
                return joined([*found, *self._imported(key, scope)])
            if definitions and scope is at.scope and key not in scope.globals and scope.parent is not None:
                break
            scope, order = scope.parent, END
            block = scope.root if scope is not None else block
        if not found and scope is None:
            return self._imported(key, at.scope)
        return joined(found)

    def _function(self, function: Scope, name: str) -> Origin:
        """A function that is not called; noted where it would answer with a test of the rank."""
        tests = (one for one in self.returned(function) if one.kind is Kind.RANK and one.note in {"first", "others"})
        note = "tests the rank" if next(tests, None) is not None else ""
        return Origin(kind=Kind.FUNCTION, text=name, made=function.id, note=note)

    def function_named(self, name: str) -> Scope | None:
        """The function of this id, where the id is of one function only."""
        file = name.partition("::")[0]
        if file not in self._functions:
            source = self.project.sources.get(file)
            self._functions[file] = {scope.id: scope for scope in source.scopes} if source is not None else {}
        return self._functions[file].get(name)

    def _imported(self, key: str, scope: Scope) -> Origins:
        meant = self.project.resolve(scope, key)
        if isinstance(meant, tuple):
            module, name = meant
            if module is scope:
                return ()
            return self.name(name, At(module, END, module.root))
        if isinstance(meant, Scope) and not meant.is_class:
            return (self._function(meant, meant.name),)
        return ()

    def _defined(self, key: str, definition: Definition, scope: Scope) -> Origins:
        if definition.form == "def":
            named = scope.functions.get(key)
            return (self._function(named, key),) if named is not None else ()
        if definition.form == "shared":
            return (Origin(kind=Kind.SHARED, text=self.text(definition.value, scope)),)
        at = At(scope, definition.order, definition.block)
        if definition.value is None:
            return ()
        found = self.entered(definition.value, at) if definition.form == "with" else self.of(definition.value, at)
        if definition.index or definition.form == "for":
            found = self.element(found, definition, at)
        if definition.form in {"change", "augment"}:
            note = {"Div": "divides", "Mult": "multiplies"}.get(definition.operator, "")
            sized = tuple(
                replace(one, note=note) for one in found if note and one.kind is Kind.WORLD_SIZE and not one.note
            )
            kept = (one for one in found if one.kind in {Kind.LOCAL, Kind.SHARED} or one.note == "drawn")
            ranks = (one for one in found if one.kind in RANK_KINDS and one.note != "uncertain")
            added = ranks if definition.form == "augment" else ()
            found = (*sized, *kept, *(replace(one, kind=Kind.RANK, note="") for one in added))
            if definition.form == "augment" and isinstance(definition.value, ast.Constant):
                found += (Origin(kind=Kind.UNKNOWN, text=key),)  # a count
            if definition.form == "augment" or isinstance(definition.value, ast.Constant):
                found += self.decided(definition.block, scope)
        elif isinstance(definition.value, ast.Constant) and definition.block.form in {"if", "else"}:
            found += self.decided(definition.block, scope)
        elif definition.block.form in {"if", "else"} and definition.form == "assign":
            found += self._had_by_some(key, definition, scope)
        return self.linked(found, key, definition, scope)

    def _had_by_some(self, key: str, definition: Definition, scope: Scope) -> Origins:
        """The test of the rank that decides whether a name holds an object, where it holds None else."""
        from ddpdoctor.source.expressions import had_by

        if not any(_is_none(other.value) for other in self._all_definitions(key, scope)):
            return ()
        block = definition.block
        test = self.of(block.test, At(scope, block.order, block.parent or block))
        return tuple(had_by(test, turned=block.form == "else"))

    def _all_definitions(self, key: str, scope: Scope) -> list[Definition]:
        owner, _, name = key.rpartition(".")
        cls = scope.of_class if owner == "self" else None
        if cls is None:
            return scope.definitions.get(key, [])
        return [each for _, each, _ in self.index.attributes.get((id(cls), name), ())]

    def entered(self, node: ast.expr, at: At) -> Origins:
        """What `with node as name` gives: of a generator of the program what it yields, else the object itself."""
        from ddpdoctor.source.calls import meaning

        target = meaning(self, node, at).target if isinstance(node, ast.Call) else None
        if not isinstance(target, Scope) or not target.yields or target.is_class:
            return self.of(node, at)
        return joined(
            origin for value, order, block in target.yields for origin in self.of(value, At(target, order + 1, block))
        )

    def items(self, node: ast.expr, at: At) -> tuple[dict[str, ast.expr], At] | None:
        """The keys and values of a dict that is written out, also under a name or by a function; None of any other."""
        if isinstance(node, ast.Name | ast.Attribute):
            key = (id(node), "items")
            if key in self._open:
                return None
            self._open.add(key)
            try:
                only = self._only_value(node, at)
                written = self.items(*only) if only is not None else None
                return self._changed(node, written, at) if written is not None else None
            finally:
                self._open.discard(key)
        if isinstance(node, ast.Dict) and all(isinstance(key, ast.Constant) for key in node.keys):
            return {
                str(key.value): value
                for key, value in zip(node.keys, node.values, strict=True)
                if isinstance(key, ast.Constant)
            }, at
        if isinstance(node, ast.Call) and (returned := self._only_return(node, at)) is not None:
            key = (id(node), "items")
            if key in self._open:
                return None  # a function that returns what it returns
            self._open.add(key)
            try:
                return self.items(*returned)
            finally:
                self._open.discard(key)
        if (
            isinstance(node, ast.Call)
            and dotted(node.func) == "dict"
            and not node.args
            and all(one.arg for one in node.keywords)
        ):
            return {str(one.arg): one.value for one in node.keywords}, at
        return None

    def _changed(
        self, node: ast.Name | ast.Attribute, written: tuple[dict[str, ast.expr], At], at: At
    ) -> tuple[dict[str, ast.expr], At] | None:
        """A dict with what this function assigns to its keys afterwards; None where only some runs do so."""
        name = dotted(node)
        items, made = written
        for key, definitions in at.scope.definitions.items():
            if not key.startswith(f"{name}[") or not key.endswith("]"):
                continue
            before = [one for one in definitions if one.order < at.order]
            if not before:
                continue
            _, always = reaching(before, at.order, at.block)
            value = before[-1].value
            if not always or value is None or before[-1].index or made.scope is not at.scope:
                return None
            items = {**items, str(ast.literal_eval(key[len(name) + 1 : -1])): value}
        return items, made if items is written[0] else at

    def _only_value(self, node: ast.Name | ast.Attribute, at: At) -> tuple[ast.expr, At] | None:
        """The one expression that a name, a parameter or an attribute of this class holds; None where there are several."""
        name = dotted(node)
        owner, _, attribute = name.rpartition(".")
        cls = at.scope.of_class
        if owner == "self" and cls is not None:
            given = [(scope, one) for scope, one, _ in self.index.attributes.get((id(cls), attribute), ())]
        elif owner or not name:
            return None
        elif name in at.scope.parameters and name not in at.scope.definitions:
            return self._only_argument(at.scope, name)
        else:
            given = [(at.scope, one) for one in at.scope.definitions.get(name, ())]
        given = [(scope, one) for scope, one in given if one.form != "change"]
        if len(given) != 1 or given[0][1].form != "assign" or given[0][1].index:
            return None
        scope, one = given[0]
        plain = isinstance(one.value, ast.Dict | ast.Call | ast.Name | ast.Attribute)
        return (one.value, At(scope, one.order, one.block)) if plain and one.value is not None else None

    def _only_argument(self, scope: Scope, name: str) -> tuple[ast.expr, At] | None:
        """What the only call of a function gives for a parameter."""
        sites = self.sites(scope)
        given = self._given_at(sites[0], name, scope.parameters.index(name)) if len(sites) == 1 else None
        return (given, At(sites[0].caller, sites[0].call.order, sites[0].call.block)) if given is not None else None

    def _only_return(self, node: ast.Call, at: At) -> tuple[ast.expr, At] | None:
        """What a function of the program returns where it does so in one place: a dict, or a name."""
        from ddpdoctor.source.calls import meaning

        target = meaning(self, node, at).target
        if target is None or target.is_class or len(target.returns) != 1:
            return None
        value, order, block = target.returns[0]
        return (value, At(target, order + 1, block)) if isinstance(value, ast.Dict | ast.Name) else None

    def decided(self, block: Block, scope: Scope) -> Origins:
        """The local values that decide whether a block is run: what is counted there differs between ranks as well."""
        if block.form not in {"if", "else", "case"} or block.test is None:
            return ()
        found = self.of(block.test, At(scope, block.order, block.parent or block))
        if any(origin.kind is Kind.SHARED for origin in found):
            return tuple(origin for origin in found if origin.kind is Kind.SHARED)
        return tuple(origin for origin in found if origin.kind is Kind.LOCAL)

    def element(self, found: Origins, definition: Definition, at: At) -> Origins:
        """What one target gets when a value is unpacked or gone over."""
        from ddpdoctor.source.expressions import item_of, part_of

        node = definition.value
        assert node is not None
        if definition.form == "for":
            return item_of(self, node, definition.index, at)
        return part_of(self, node, found, definition.index, at)

    def linked(self, found: Origins, key: str, definition: Definition, scope: Scope) -> Origins:
        """The alternatives with one more step in their chains: this assignment."""
        if all(origin.kind in _QUIET for origin in found):
            return found
        file, line = self.project.sources[scope.file].place(definition.line)
        shown = self.text(definition.value, scope)
        sign = {"for": "in", "augment": "+=", "with": "from", "change": "takes"}.get(definition.form, "=")
        link = Link(text=f"{key} {sign} {shown}", file=file, line=line)
        return tuple(
            origin
            if origin.kind in _QUIET or len(origin.why) > MOST_STEPS
            else replace(origin, why=(link, *origin.why))
            for origin in found
        )

    # parameters

    def parameter(self, scope: Scope, name: str) -> Origins:
        """What the callers of a function give for a parameter; the default where none is known."""
        key = (id(scope), name)
        if key in self._given:
            return self._given[key]
        if key in self._open:
            return ()
        self._open.add(key)
        try:
            found = joined(self._from_sites(scope, name))
        finally:
            self._open.discard(key)
        if not found and name in RANK_NAMES:
            found = (Origin(kind=RANK_NAMES[name], text=name, note=note_of(name)),)
        self._given[key] = found
        return found

    def _from_sites(self, scope: Scope, name: str) -> Iterable[Origin]:
        sites = self.sites(scope)
        method = scope.parent is not None and scope.parent.is_class
        position = scope.parameters.index(name)
        if not sites:
            default = scope.defaults.get(name)
            if default is not None and scope.parent is not None:
                yield from self.of(default, At(scope.parent, END, scope.parent.root))
            return
        if len(sites) > MOST_SITES:
            return
        for site in sites:
            if site.spawned and site.first and position < site.first:
                yield self._spawned(name, site)
                continue
            given = self._given_at(site, name, position)
            if given is None:
                default = scope.defaults.get(name)
                if default is not None and scope.parent is not None:
                    yield from self.of(default, At(scope.parent, END, scope.parent.root))
                continue
            at = At(site.caller, site.call.order, site.call.block)
            if site.spawned == "Process" and self._counted(given, at):
                yield self._spawned(name, site)
                continue
            file, line = self.project.sources[site.caller.file].place(site.call.node.lineno)
            if method and position == 0:
                continue
            link = Link(text=f"{name} is given {self.text(given, site.caller)}", file=file, line=line)
            for origin in self.of(given, at):
                quiet = origin.kind in _QUIET or len(origin.why) > MOST_STEPS
                yield origin if quiet else replace(origin, why=(link, *origin.why))

    def _given_at(self, site: Site, name: str, position: int) -> ast.expr | None:
        for keyword, value in site.keywords:
            if keyword == name:
                return value
        place = position - site.first
        if 0 <= place < len(site.arguments) and not any(isinstance(arg, ast.Starred) for arg in site.arguments):
            return site.arguments[place]
        return None

    def _spawned(self, name: str, site: Site) -> Origin:
        file, line = self.project.sources[site.caller.file].place(site.call.node.lineno)
        link = Link(text=f"{name} is the index that {site.spawned} gives", file=file, line=line)
        return Origin(kind=Kind.SPAWN_INDEX, text=name, why=(link,))

    def _counted(self, node: ast.expr, at: At) -> bool:
        """Whether it is the variable of a loop over `range`: each process that is started gets another number."""
        if not isinstance(node, ast.Name):
            return False
        return any(
            definition.form == "for"
            and isinstance(definition.value, ast.Call)
            and dotted(definition.value.func) == "range"
            for definition in at.scope.definitions.get(node.id, ())
        )

    def sites(self, scope: Scope) -> list[Site]:
        """The calls of a function: those by name, and those of a method on an object whose class is known."""
        found = list(self.index.sites.get(id(scope), ()))
        cls = scope.parent
        if cls is None or not cls.is_class:
            return found
        if scope.name.startswith("__"):
            return [*found, *self._of_objects(cls, scope)] if scope.name == "__call__" else found
        alone, calls = self._of_method(scope.name, self.near.get(scope.file, frozenset()))
        for caller, call in calls:
            node = call.node
            assert isinstance(node.func, ast.Attribute)
            if alone or self._is_object(node.func.value, cls, At(caller, call.order, call.block)):
                keywords = tuple((one.arg, one.value) for one in node.keywords if one.arg is not None)
                found.append(Site(caller, call, tuple(node.args), keywords, 1))
        return found

    def _of_objects(self, cls: Scope, function: Scope) -> Iterable[Site]:
        """The calls of a class's objects, by the names that they are assigned to."""
        near = self.near.get(function.file, frozenset())
        for name in sorted(self.index.objects.get(id(cls), ())):
            calls = (each for each in self.index.named.get(name, ()) if each[0].file in near)
            for caller, call in islice(calls, MOST_SITES):
                keywords = tuple((one.arg, one.value) for one in call.node.keywords if one.arg is not None)
                yield Site(caller, call, tuple(call.node.args), keywords, 1)

    def _of_method(self, name: str, near: frozenset[str]) -> tuple[bool, list[tuple[Scope, RawCall]]]:
        """Whether one class of these files alone has a method of this name, and the first calls of it there."""
        key = (id(near), name)
        if key not in self._methods:
            owners = islice((owner for owner in self.index.owners.get(name, ()) if owner.file in near), 2)
            calls = islice((each for each in self.index.methods.get(name, ()) if each[0].file in near), MOST_SITES)
            self._methods[key] = (len([*owners]) == 1 and len(name) > 4, [*calls])
        return self._methods[key]

    def _is_object(self, node: ast.expr, cls: Scope, at: At) -> bool:
        return any(origin.note == f"{cls.file}::{cls.name}" for origin in self.of(node, at))

    # functions and classes

    def returned(self, function: Scope) -> Origins:
        """What a function of the program gives back."""
        key = (id(function), "return")
        if id(function) in self._returned:
            return self._returned[id(function)]
        if key in self._open:
            return ()
        self._open.add(key)
        try:
            found = joined(
                origin
                for value, order, block in function.returns
                for origin in self._given_back(value, At(function, order + 1, block))
            )
        finally:
            self._open.discard(key)
        if not found and function.name in RANK_CALLS:
            found = (Origin(kind=RANK_CALLS[function.name], text=f"{function.name}()", note=note_of(function.name)),)
        self._returned[id(function)] = found
        return found

    def _given_back(self, value: ast.expr, at: At) -> Iterable[Origin]:
        """What a `return` gives; that it compares a clock is one more step of its chain."""
        for origin in self.of(value, at):
            if origin.note == "clock" and isinstance(value, ast.Compare) and len(origin.why) <= MOST_STEPS:
                file, line = self.project.sources[at.scope.file].place(value.lineno)
                link = Link(text=f"{at.scope.name}() returns {self.text(value, at.scope)}", file=file, line=line)
                yield replace(origin, why=(link, *origin.why))
            else:
                yield origin

    def attribute(self, cls: Scope, name: str, hops: int = 4) -> Origins:
        """What an attribute of a class's objects can hold: all that is assigned to it, or the property of that name."""
        method = self.project.method(cls, name)
        if method is not None:
            is_property = any(dotted(decorator).endswith("property") for decorator in method.decorators)
            return self.returned(method) if is_property else (self._function(method, name),)
        found: list[Origin] = [*self._constructed(cls, name)]
        for scope, definition, key in self.index.attributes.get((id(cls), name), ()):
            found += self._defined(key, definition, scope)
        for base in self.project.bases(cls) if hops else ():
            if isinstance(base, Scope) and base is not cls:
                found += self.attribute(base, name, hops - 1)
        if all(origin.kind is Kind.CONSTANT for origin in found) and _is_filled_in(cls, name, found):
            found.append(Origin(kind=RANK_NAMES[name], text=name, note=note_of(name)))
        return joined(found)

    def _constructed(self, cls: Scope, name: str) -> Iterable[Origin]:
        """What a field of a class without a constructor of its own, such as a dataclass, is given where objects are made."""
        if name not in cls.fields or "__init__" in cls.functions:
            return
        position = cls.fields.index(name)
        for caller, call in self.index.constructions.get(id(cls), ())[:MOST_SITES]:
            node = call.node
            given = next((one.value for one in node.keywords if one.arg == name), None)
            if given is None and position < len(node.args) and not any(isinstance(a, ast.Starred) for a in node.args):
                given = node.args[position]
            if given is None:
                continue
            file, line = self.project.sources[caller.file].place(node.lineno)
            link = Link(text=f"{name} is given {self.text(given, caller)}", file=file, line=line)
            for origin in self.of(given, At(caller, call.order, call.block)):
                quiet = origin.kind in _QUIET or len(origin.why) > MOST_STEPS
                yield origin if quiet else replace(origin, why=(link, *origin.why))

    def field(self, owner: str, name: str, file: str) -> Origins:
        """What `owner.name` can hold in a file: all that its programs assign to it, or an option of this name."""
        near = self.near.get(file, frozenset({file}))
        key = (id(near), f"{owner}.{name}")
        if key in self._given:
            return self._given[key]
        if key in self._open:
            return ()
        self._open.add(key)
        found: list[Origin] = []
        try:
            for scope, definition, assigned in self.index.fields.get((owner, name), ()):
                if scope.file in near:
                    found += self._defined(assigned, definition, scope)
            if found and owner not in ARGUMENT_OBJECTS and all(one.kind is Kind.CONSTANT for one in found):
                found.append(Origin(kind=Kind.UNKNOWN, text=f"{owner}.{name}"))  # another object may have this name
            if owner in ARGUMENT_OBJECTS or owner.endswith(("args", "opt", "config", "cfg")):
                found += self._option(name, near)
        finally:
            self._open.discard(key)
        self._given[key] = joined(found)
        return self._given[key]

    def of_any(self, name: str, file: str) -> Origins:
        """The models, loaders and samplers of an unknown object's attribute, where one class alone has one of this name.

        A callback gets its trainer so: `trainer.model`, `runner.loader`.
        """
        near = self.near.get(file, frozenset({file}))
        key = (id(near), f"*.{name}")
        if key not in self._given:
            self._given[key] = ()
            if not self._having:
                for (number, attribute), given in self.index.attributes.items():
                    self._having.setdefault(attribute, {})[number] = given[0][0]
            owners = {
                id(cls): cls
                for scope in self._having.get(name, {}).values()
                if scope.file in near and (cls := scope if scope.is_class else scope.of_class) is not None
            }
            if len(owners) == 1:
                only = next(iter(owners.values()))
                self._given[key] = tuple(one for one in self.attribute(only, name) if one.kind in _HELD)
        return self._given[key]

    def _option(self, name: str, near: frozenset[str]) -> Iterable[Origin]:
        for scope, call, word in self.index.options.get(name, ()):
            if scope.file not in near:
                continue
            file, line = self.project.sources[scope.file].place(call.node.lineno)
            default = next((one.value for one in call.node.keywords if one.arg == "default"), None)
            link = (Link(text=f"option {word}", file=file, line=line),)
            if name in RANK_NAMES:
                yield Origin(kind=RANK_NAMES[name], text=word, note="argument", why=link)
            elif isinstance(default, ast.Constant):
                yield Origin(kind=Kind.UNKNOWN, text=word, note="argument", why=link)
            if default is not None:
                yield from self.of(default, At(scope, call.order, call.block))

    # words

    def text(self, node: ast.AST | None, scope: Scope) -> str:
        """An expression as it is written, on one line and shortened."""
        return segment(self.project.sources[scope.file].text, node)

    def where(self, node: ast.expr, scope: Scope) -> str:
        """`file:line:column` of an expression."""
        file, line = self.project.sources[scope.file].place(node.lineno)
        return f"{file}:{line}:{node.col_offset + 1}"


def _is_filled_in(cls: Scope, name: str, known: Iterable[Origin]) -> bool:
    """Whether an attribute for which only constants are known holds the process's rank, which something else fills in.

    A plain `rank` may be that of a matrix: it is the process's beside a world size or a local rank, if it begins as theirs.
    """
    if name not in RANK_NAMES or name not in cls.fields or "__init__" in cls.functions:
        return False
    beside = {"world_size", "local_rank"} & {*cls.fields, *cls.definitions}
    return name != "rank" or (bool(beside) and all(one.text in _NO_RANK_YET for one in known))


def _is_none(node: ast.expr | None) -> bool:
    return isinstance(node, ast.Constant) and node.value is None


def joined(origins: Iterable[Origin]) -> Origins:
    """The alternatives, each once: the same thing that is reached in two ways is shown in the first."""
    found: dict[tuple[Kind, str, str, str], Origin] = {}
    for origin in origins:
        found.setdefault((origin.kind, origin.text, origin.made, origin.note), origin)
        if len(found) >= MOST_ORIGINS:
            break
    return tuple(found.values())


def note_of(name: str) -> str:
    """`first` for names that say that this is the one rank, such as `is_main_process`."""
    return "first" if name.startswith(("is_", "main_", "master_", "rank_zero")) else "by name"


def environment(name: str) -> Origins:
    """What an environment variable of a launcher holds."""
    kind = ENVIRONMENT.get(name)
    return (Origin(kind=kind, text=name),) if kind is not None else ()


_LINES: dict[int, tuple[str, list[str]]] = {}


def segment(text: str, node: ast.AST | None) -> str:
    """The text of a node, white space collapsed, at most 70 characters."""
    line, last = getattr(node, "lineno", 0), getattr(node, "end_lineno", 0)
    if not line or not last:
        return ""
    kept = _LINES.get(id(text))
    if kept is None or kept[0] is not text:
        if len(_LINES) > 64:
            _LINES.clear()
        kept = _LINES[id(text)] = (text, text.split("\n"))
    lines = kept[1]
    start, end = node.col_offset, node.end_col_offset  # type: ignore[union-attr]
    first = lines[line - 1] if line <= len(lines) else ""
    if line == last:
        found = first[start:end] if first.isascii() else first.encode()[start:end].decode(errors="replace")
    else:
        tail = lines[line : min(last, line + 4)]
        found = " ".join([first[start:], *(part.strip() for part in tail)])
    found = " ".join(found.split())
    return found if len(found) <= MOST_TEXT else f"{found[: MOST_TEXT - 3]}..."
