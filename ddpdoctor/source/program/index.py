"""Tables over all modules of a run: who calls a function with what, who sets an attribute, which options there are."""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field

from ddpdoctor.source.names.dotted_names import dotted
from ddpdoctor.source.program.methods import is_property, takes_its_object
from ddpdoctor.source.program.project import Project, Source
from ddpdoctor.source.program.registries import LookUp, Owner, Registries, entries, look_up
from ddpdoctor.source.program.started_functions import STARTERS, Start, call_by_partial, start_in
from ddpdoctor.source.program.stubs import is_stub, only_override
from ddpdoctor.source.syntax.scopes import Definition, RawCall, Scope

OPTION_MAKERS = frozenset({"add_argument", "option"})
"""Of argparse and of click: what declares an option of the command line."""
MOST_GIVEN = 64  # calls of a function that are given a function
MOST_PASSED = 8  # functions through which it is passed on
_OF_THE_OBJECT = ("self.", "cls.")
_PARSES_OPTIONS = frozenset({"parse_args", "parse_known_args", "parse_intermixed_args"})
"""Of argparse: what gives an object that holds the options."""


@dataclass(frozen=True, slots=True)
class Site:
    """One call of a function."""

    caller: Scope
    """The function, class body or module that the call stands in."""
    call: RawCall
    """The call itself; of a process that is started, the call that starts it."""
    arguments: tuple[ast.expr, ...]
    """What is given by position: `args=(...)` where a process is started."""
    keywords: tuple[tuple[str, ast.expr], ...]
    """What is given by name, without `**options`."""
    first: int
    """How many parameters something else gives first: 1 for `self`, and for the index that `spawn` gives."""
    spawned: str = ""
    """What starts processes with the function: `spawn`, `start_processes`, `Process` or `run`; empty for a plain call."""


@dataclass(slots=True, eq=False)
class Index:
    """What the evaluator looks up."""

    project: Project
    """The files of the run."""
    sites: dict[int, list[Site]] = field(default_factory=dict)
    """By function, the calls of it. Functions and classes are keys by their `id()`."""
    methods: defaultdict[str, list[tuple[Scope, RawCall]]] = field(default_factory=lambda: defaultdict(list))
    """The calls of methods that are no known function, by the method's name."""
    owners: dict[str, list[Scope]] = field(default_factory=dict)
    """By name of a method, the classes that define it."""
    attributes: dict[tuple[int, str], list[tuple[Scope, Definition, str]]] = field(default_factory=dict)
    """By class and attribute, what its body and its methods assign, with the name as written."""
    fields: dict[tuple[str, str], list[tuple[Scope, Definition, str]]] = field(default_factory=dict)
    """By the last part of an owner's name and attribute, what is assigned through a name other than `self`."""
    options: dict[str, list[tuple[Scope, RawCall, str]]] = field(default_factory=dict)
    """By name of its destination, the calls that declare an option of the command line, with the option as written."""
    parsed: dict[str, set[str]] = field(default_factory=dict)
    """By name, the files in which it holds the options that argparse has read."""
    items: dict[tuple[str, str], list[tuple[Scope, Definition]]] = field(default_factory=dict)
    """By file and `name['key']`, what functions assign to the keys of a module's dict."""
    from_functions: dict[tuple[str, str], list[tuple[Scope, Definition]]] = field(default_factory=dict)
    """By file and name, what functions assign to a name of their module (`global name`)."""
    named: defaultdict[str, list[tuple[Scope, RawCall]]] = field(default_factory=lambda: defaultdict(list))
    """The calls of what is no function of the program, by the last part of the name: they may call an object."""
    by_text: list[tuple[Scope, RawCall]] = field(default_factory=list)
    """The calls of methods that are named by a variable: `getattr(hook, name)(self)`."""
    constructions: dict[int, list[tuple[Scope, RawCall]]] = field(default_factory=dict)
    """By class, the calls that make its objects."""
    below: dict[int, list[Scope]] = field(default_factory=dict)
    """By class, the classes of the program that have it as a base."""
    asking: list[tuple[Scope, RawCall, LookUp]] = field(default_factory=list)
    """The calls of what a registry holds under a literal."""
    objects: dict[int, set[str]] = field(default_factory=dict)
    """By class that can be called, the last parts of the names that its objects are assigned to."""
    _registries: Registries = field(init=False)
    _replaced: set[tuple[Owner, str]] = field(default_factory=set)
    """By table, the keys that statements assign to; empty of any key."""
    _written: dict[int, dict[str, ast.expr | None]] = field(default_factory=dict)
    """The entries of each table that is written out, by the identity of its node; None under a key that is there twice."""

    _handed: list[Start] = field(default_factory=list)
    """The starts of processes with a parameter of the function around."""
    _of_parameters: list[tuple[Scope, RawCall]] = field(default_factory=list)
    """The calls of a parameter of the function around."""
    _partials: list[tuple[Scope, RawCall]] = field(default_factory=list)
    """The calls that partials stand for, as far as their arguments are given."""
    _stubs: list[Scope] = field(default_factory=list)
    _real: dict[int, Scope] = field(default_factory=dict)
    """By stub, the method of the only class below that does the work."""

    def __post_init__(self) -> None:
        """Begin without registries."""
        self._registries = Registries(self.project)

    def link(self) -> None:
        """Enter the calls through registries, and those of stubs, once all files are entered."""
        self._link_stubs()
        self._link_handed()
        self._link_partials()
        for scope, call, asked in self.asking:
            target = self.looked_up(scope, asked, asked.key.value if isinstance(asked.key, ast.Constant) else None)
            target = self.project.method(target, "__init__") if target is not None and target.is_class else target
            if target is not None:
                method = target.parent is not None and target.parent.is_class
                self._site(
                    target,
                    Site(scope, call, tuple(call.node.args[asked.first :]), _keywords(call.node), 1 if method else 0),
                )
        self.asking.clear()

    def _link_stubs(self) -> None:
        """Enter the calls of methods that only one class below theirs makes as calls of that one's."""
        for stub in self._stubs:
            real = only_override(stub, self.below)
            if real is None:
                continue
            self._real[id(stub)] = real
            for site in self.sites.get(id(stub), ()):
                site.call.target = real
                self._site(real, site)
        self._stubs.clear()

    def looked_up(self, scope: Scope, asked: LookUp, key: object) -> Scope | None:
        """The function or class that a registry, or a dict of a module that is written out, holds under a text."""
        if not isinstance(key, str):
            return None
        owner = self._registries.owner(scope, dotted(asked.owner))
        if owner is None or (owner, key) in self._replaced:
            return None
        found = [*self._registries.found(owner, key), *self._written_under(scope, asked, key)]
        return found[0] if len(found) == 1 else None

    def _written_under(self, scope: Scope, asked: LookUp, key: str) -> Iterator[Scope | None]:
        """What a dict of a module that is written out holds under a text; None where a later statement may replace it."""
        meant = self.project.resolve(scope, dotted(asked.owner))
        given = meant[0].definitions.get(meant[1], ()) if isinstance(meant, tuple) else ()
        written = given[0].value if given else None
        if not isinstance(meant, tuple) or not isinstance(written, ast.Dict):
            return
        if id(written) not in self._written:
            self._written[id(written)] = entries(written)
        value = self._written[id(written)].get(key, ast.Constant(value=None))
        if isinstance(value, ast.Constant):
            return
        held = self.project.resolve(meant[0], dotted(value)) if value is not None and dotted(value) else None
        changed = len(given) > 1 or ((meant[0].file, meant[1]), "") in self._replaced
        yield held if isinstance(held, Scope) and not changed else None

    def add(self, source: Source) -> None:
        """Enter one file."""
        self._registries.add(source.scopes)
        for scope in source.scopes:
            self._attributes(scope)
            if scope.is_class:
                for name, method in scope.functions.items():
                    self.owners.setdefault(name, []).append(scope)
                    if is_stub(method):
                        self._stubs.append(method)
                for base in self.project.bases(scope):
                    if isinstance(base, Scope):
                        self.below.setdefault(id(base), []).append(scope)
            for call in scope.calls:
                self._call(scope, call)
            for key, definitions in scope.definitions.items():
                for definition in definitions:
                    if definition.form == "assign" and type(definition.value) is ast.Call:
                        self._object(scope, key, definition.value)
                if "[" in key:
                    self._item(scope, key, definitions)
            self._changes(scope)
            for name in scope.globals:
                given = ((scope, one) for one in scope.definitions.get(name, ()))
                self.from_functions.setdefault((scope.file, name), []).extend(given)

    def _changes(self, scope: Scope) -> None:
        """Enter which keys of tables the statements of a function or module replace."""
        items: dict[str, list[Definition]] = {}
        for key, definitions in scope.definitions.items():
            if "[" in key:
                items.setdefault(key.partition("[")[0], []).extend(definitions)
        for name, definitions in scope.definitions.items():
            changes = [one for one in definitions if one.form == "change"]
            if not changes or "[" in name or name in scope.parameters:
                continue
            own = len(changes) < len(definitions)  # else it is the table of a module that is changed
            owner = self._registries.owner(scope if own or scope.parent is None else scope.parent, name)
            if owner is None:
                continue
            written = {one.order for one in items.get(name, ())}
            if any(one.order not in written for one in changes):
                self._replaced.add((owner, ""))
            for key in (key for key in scope.definitions if key.startswith(f"{name}[")):
                self._replaced.add((owner, _unquoted(key[len(name) + 1 : -1])))

    def _item(self, scope: Scope, key: str, definitions: list[Definition]) -> None:
        name = key.partition("[")[0]
        if "." in name or name in scope.parameters:
            return
        if scope.parent is not None and any(one.form != "change" for one in scope.definitions.get(name, ())):
            return
        self.items.setdefault((scope.file, key), []).extend((scope, one) for one in definitions)

    def _object(self, scope: Scope, key: str, value: ast.Call) -> None:
        name = dotted(value.func)
        if not name:
            return
        made = self.project.resolve(scope, name)
        parses = name.rpartition(".")[2] in _PARSES_OPTIONS
        if parses or (isinstance(made, Scope) and any(map(_parses_options, _given_back(made)))):
            self.parsed.setdefault(key.rpartition(".")[2], set()).add(scope.file)
        if isinstance(made, Scope) and made.is_class and "__call__" in made.functions:
            self.objects.setdefault(id(made), set()).add(key.rpartition(".")[2])

    def _attributes(self, scope: Scope) -> None:
        cls = scope.of_class
        for key, definitions in scope.definitions.items():
            owner, _, attribute = key.rpartition(".")
            if scope.is_class and not owner:
                table = self.attributes.setdefault((id(scope), key), [])
            elif owner in {"self", "cls"} and cls is not None:
                table = self.attributes.setdefault((id(cls), attribute), [])
            elif owner:
                table = self.fields.setdefault((owner.rpartition(".")[2], attribute), [])
            else:
                continue
            table.extend((scope, definition, key) for definition in definitions)

    def _call(self, scope: Scope, call: RawCall) -> None:
        node, name = call.node, call.name
        func = node.func
        asked = look_up(node)
        if asked is not None and isinstance(asked.key, ast.Constant) and isinstance(asked.key.value, str):
            self.asking.append((scope, call, asked))
        if type(func) is ast.Call and dotted(func.func) == "getattr" and len(func.args) > 1:
            self.by_text.append((scope, call))
        member = type(func) is ast.Attribute
        last = call.method
        if last in OPTION_MAKERS and node.args:
            self._option(scope, call)
        if last in STARTERS or (last == "run" and member):
            self._started(scope, call, last)
        if last == "partial" and (inner := call_by_partial(call)) is not None:
            self._partials.append((scope, inner))
        if name in scope.parameters and name not in scope.definitions:
            self._of_parameters.append((scope, call))
        if name:
            call.meant = self.project.resolve(scope, name)
            if type(call.meant) is not str or name.startswith(_OF_THE_OBJECT) or name == "cls":
                self._own_call(scope, call)
        target = call.target
        if target is None and member:
            self.methods[last].append((scope, call))
        if target is None and last:
            self.named[last].append((scope, call))

    def _own_call(self, scope: Scope, call: RawCall) -> None:
        """Enter a call of what may be a function or a class of the program."""
        target = call.target = self._called(scope, call.name, call.meant)
        made = _made_by(scope, call)
        if made is not None:
            self.constructions.setdefault(id(made), []).append((scope, call))
        if target is not None:
            self._called_from(scope, call, target)

    def _called_from(self, scope: Scope, call: RawCall, target: Scope) -> None:
        first = int(takes_its_object(target))
        self._site(target, Site(scope, call, tuple(call.node.args), _keywords(call.node), first))

    def _site(self, target: Scope, site: Site) -> None:
        self.sites.setdefault(id(target), []).append(site)

    def sites_near(self, function: Scope, near: frozenset[str]) -> list[Site]:
        """The calls of a function in these files; all of them where it stands in none of these."""
        sites = self.sites.get(id(function), [])
        return [site for site in sites if site.caller.file in near] if function.file in near else [*sites]

    def target(self, scope: Scope, name: str) -> Scope | None:
        """The function that a dotted name calls; of a class its `__init__`, of `self.method` the method."""
        return self._called(scope, name, self.project.resolve(scope, name))

    def _called(self, scope: Scope, name: str, meant: Scope | tuple[Scope, str] | str) -> Scope | None:
        if name.startswith(_OF_THE_OBJECT):
            rest = name.partition(".")[2]
            cls = scope.of_class
            method = self.project.method(cls, rest) if cls is not None and "." not in rest else None
            return self._real.get(id(method), method) if method is None or not is_property(method) else None
        if not isinstance(meant, Scope):
            return None
        return self.project.method(meant, "__init__") if meant.is_class else meant

    def _option(self, scope: Scope, call: RawCall) -> None:
        words = [arg.value for arg in call.node.args if isinstance(arg, ast.Constant) and isinstance(arg.value, str)]
        dest = next(
            (keyword.value.value for keyword in call.node.keywords
             if keyword.arg == "dest" and isinstance(keyword.value, ast.Constant)), None
        )  # fmt: skip
        for word in words:
            name = dest if isinstance(dest, str) else word.lstrip("-").replace("-", "_")
            self.options.setdefault(name, []).append((scope, call, word))

    def _started(self, scope: Scope, call: RawCall, how: str) -> None:
        start = start_in(scope, call, how)
        if start is not None and start.parameter:
            self._handed.append(start)
        elif start is not None and (target := self._function(scope, start.function)) is not None:
            self._starts(start, target)

    def _function(self, scope: Scope, named: ast.expr | None) -> Scope | None:
        """The function of the program that an expression names."""
        target = self.project.resolve(scope, dotted(named)) if named is not None and dotted(named) else None
        return target if isinstance(target, Scope) and not target.is_class else None

    def _starts(self, start: Start, target: Scope) -> None:
        start.call.starts = target
        site = Site(start.scope, start.call, start.arguments, start.keywords, start.first, start.spawned)
        self._site(target, site)

    def _link_handed(self) -> None:
        """Enter the calls of a function that callers give, `fn(rank, args)`, and the processes that run it: `launch(train)`."""
        for start in self._handed:
            for target in self._given(start.scope, start.parameter):
                self._starts(start, target)
        for scope, call in self._of_parameters:
            for target in self._given(scope, call.name):
                self._site(target, Site(scope, call, tuple(call.node.args), _keywords(call.node), 0))
        self._handed.clear()
        self._of_parameters.clear()

    def _link_partials(self) -> None:
        """Enter what partials give as calls of their functions, but for those that processes run."""
        for scope, call in self._partials:
            target = self.target(scope, call.name)
            if target is None and isinstance(call.node.func, ast.Attribute):
                self.methods[call.last].append((scope, call))
            elif target is not None and not any(site.spawned for site in self.sites.get(id(target), ())):
                self._called_from(scope, call, target)
        self._partials.clear()

    def _given(self, scope: Scope, name: str) -> list[Scope]:
        """The functions of the program that callers give for a parameter, some of which are given them in turn."""
        found: dict[int, Scope] = {}
        around, asked = {(id(scope), name): scope}, set[tuple[int, str]]()
        for _ in range(MOST_PASSED):
            asked |= around.keys()
            further: dict[tuple[int, str], Scope] = {}
            for (_, parameter), function in around.items():
                for site in self.sites.get(id(function), ())[:MOST_GIVEN]:
                    named = given_at(site, parameter, function.parameters.index(parameter))
                    key = dotted(named) if named is not None else ""
                    if key in site.caller.parameters and key not in site.caller.definitions:
                        further[id(site.caller), key] = site.caller
                    elif (target := self._function(site.caller, named)) is not None:
                        found[id(target)] = target
            around = {one: caller for one, caller in further.items() if one not in asked}
        return list(found.values())


def given_at(site: Site, name: str, position: int) -> ast.expr | None:
    """What a call gives for a parameter; None where it does not."""
    for keyword, value in site.keywords:
        if keyword == name:
            return value
    place = position - site.first
    if 0 <= place < len(site.arguments) and not any(
        isinstance(arg, ast.Starred) for arg in site.arguments[: place + 1]
    ):
        return site.arguments[place]
    return None


def _made_by(scope: Scope, call: RawCall) -> Scope | None:
    """The class of the program whose objects a call makes."""
    if call.name in {"cls", "self.__class__"}:
        return scope.of_class
    return call.meant if isinstance(call.meant, Scope) and call.meant.is_class else None


def _unquoted(written: str) -> str:
    return written[1:-1] if written[:1] in {"'", '"'} else written


def _keywords(node: ast.Call) -> tuple[tuple[str, ast.expr], ...]:
    return tuple((keyword.arg, keyword.value) for keyword in node.keywords if keyword.arg is not None)


def _parses_options(value: ast.expr | None) -> bool:
    return isinstance(value, ast.Call) and dotted(value.func).rpartition(".")[2] in _PARSES_OPTIONS


def _given_back(function: Scope) -> Iterator[ast.expr | None]:
    """What a function returns: as written, or what the name that it returns is given."""
    for value, _, _ in function.returns:
        yield value
        yield from (one.value for one in function.definitions.get(dotted(value), ()))
