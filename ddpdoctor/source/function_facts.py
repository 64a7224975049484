"""The facts about one function: its calls that matter, its loops and its exits, with the tests around them."""

from __future__ import annotations

import ast
import re
from bisect import bisect_left
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from operator import itemgetter

from ddpdoctor.evidence.training_code import (
    RANK_KINDS,
    Argument,
    Call,
    Change,
    Context,
    Cut,
    Exit,
    Function,
    Guard,
    Kind,
    Loop,
    Origin,
    Place,
    Value,
)
from ddpdoctor.source import torch_names as names
from ddpdoctor.source.attribute_access import class_named
from ddpdoctor.source.call_meanings import SHARD, Meaning, is_variable, meaning
from ddpdoctor.source.chosen_values import truth
from ddpdoctor.source.decided_branches import has_left, is_dead, is_taken
from ddpdoctor.source.expressions import leaves_no_remainder
from ddpdoctor.source.iteration import loader_in
from ddpdoctor.source.object_attributes import attribute_of
from ddpdoctor.source.origins import At, joined
from ddpdoctor.source.registries import look_up
from ddpdoctor.source.scopes import Block, RawCall, RawExit, RawLoop, Scope
from ddpdoctor.source.values import Values
from ddpdoctor.source.walk import dotted, parts
from ddpdoctor.source.written_calls import partial_of
from ddpdoctor.source.written_dicts import items_of, positions_of

MOST_EXITS = 30  # early exits before a line that are looked at: generated code has thousands in one function
MOST_BASES = 8  # classes above one
_WATCHED = frozenset({"requires_grad", "require_backward_grad_sync", "grad"})
_WORK = re.compile(
    r"(?i)tokeni[sz]e|preprocess|prepare|build|benchmark|evaluate|extract|convert|encode|download|cache|featuri[sz]e"
)
_FLIP = {"first": "others", "others": "first"}
_WITH_ARGUMENTS = frozenset(names.FUNCTIONS.values()) | frozenset(names.ENDS.values()) | {
    "collective", "backward", "step", "set-epoch", "load-state", "to", "cuda", "log", "save", "forward", "dataset",
    "unscale", "scale", "prepare", "shard", "change-gradient", "watches",
}  # fmt: skip
_KNOWN_LAST = (
    frozenset(name.rpartition(".")[2] for name in names.FUNCTIONS)
    | frozenset(names.ENDS)
    | frozenset(names.METHODS)
    | frozenset(name.rpartition(".")[2] for name in names.COMMANDS)
    | names.COLLECTIVES
    | names.OF_ACCELERATE
    | names.OF_FABRIC
    | names.OF_DEEPSPEED
    | {*names.HANDS_ON}
    | {"run", "forward", "module", "model", "net", "network", "ddp_model", "ddp"}
)


@dataclass(eq=False)
class FunctionFacts:
    """Makes the facts about the functions of one run."""

    values: Values
    started: frozenset[int] = frozenset()
    _guards: dict[tuple[int, int], Guard | None] = field(default_factory=dict)
    _contexts: dict[tuple[int, int], Context] = field(default_factory=dict)

    def of(self, scope: Scope) -> Iterator[Function]:
        """The facts about one function: once, or once for each call that it is looked at by."""
        for context in self.values.contexts.of(scope) or (None,):
            yield self.values.within(context, lambda: self._of(scope))

    def _suffix(self, scope: Scope) -> str:
        context = self.values.context_in(scope)
        return context.suffix if context is not None else ""

    def _of(self, scope: Scope) -> Function:
        file, line = self._line(scope, getattr(scope.node, "lineno", 1))
        known = {id(loop.body): loop.order for loop in scope.loops}
        return Function(
            id=f"{scope.id}{self._suffix(scope)}",
            place=Place(file=file, line=line, column=getattr(scope.node, "col_offset", 0) + 1, function=scope.name),
            calls=tuple(call for raw in scope.calls if (call := self._call(raw, scope, known)) is not None),
            loops=tuple(self._loop(raw, scope, known) for raw in scope.loops),
            exits=tuple(
                self._exit(raw, scope, known) for raw in scope.exits if not is_dead(self.values, raw.block, scope)
            ),
            cuts=tuple(self._cuts(scope)),
            changes=tuple(self._changes(scope)),
            parameters=scope.parameters,
            rebound=tuple(name for name in scope.parameters if name in scope.definitions),
            length=self._length(scope),
            guards=tuple(self._decorated(scope)),
            decorators=tuple(self._full(scope, decorator) for decorator in scope.decorators),
            within=self._defined_within(scope),
            tests=tuple(guard for block in scope.tests if (guard := self._uncalled(block, scope)) is not None),
            overrides=self._overrides(scope),
            entry=scope.parent is None or id(scope) in self.started or self._is_hook(scope),
        )

    def _is_hook(self, scope: Scope) -> bool:
        """Whether a framework calls a method on every rank: of a hook or a callback of a class of its own."""
        cls = scope.parent
        named = scope.name.startswith(names.HOOK_METHODS)
        return named and cls is not None and cls.is_class and self._is_of_framework(cls)

    def _is_of_framework(self, cls: Scope, hops: int = MOST_BASES) -> bool:
        """Whether a class has a base for hooks of a framework; one of the program calls its hooks as it likes."""
        for base in self.values.project.bases(cls):
            if isinstance(base, Scope):
                if hops and self._is_of_framework(base, hops - 1):
                    return True
            elif base.partition(".")[0] in names.HOOK_PACKAGES and base.rpartition(".")[2] in names.HOOK_CLASSES:
                return True
        return False

    def _defined_within(self, scope: Scope) -> tuple[Guard, ...]:
        if scope.parent is None or scope.defined_at is None or not scope.decorators:
            return ()
        order, block = scope.defined_at
        return self.guards(block, order, scope.parent)

    def _overrides(self, scope: Scope) -> str:
        cls = scope.parent
        for base in self.values.project.bases(cls) if cls is not None and cls.is_class else ():
            if isinstance(base, Scope) and (found := self.values.project.method(base, scope.name)) is not None:
                return found.id
        return ""

    def _length(self, scope: Scope) -> str:
        only = scope.returns[0][0] if scope.name == "__len__" and len(scope.returns) == 1 else None
        return self.values.text(only, scope)

    def _line(self, scope: Scope, line: int) -> tuple[str, int]:
        return self.values.project.sources[scope.file].place(line)

    def _place(self, scope: Scope, node: ast.AST) -> Place:
        file, line = self._line(scope, getattr(node, "lineno", 1))
        return Place(file=file, line=line, column=getattr(node, "col_offset", 0) + 1, function=scope.name)

    def value(self, node: ast.expr | None, at: At) -> Value:
        """What is known of an expression, as a fact."""
        return Value(text=self.values.text(node, at.scope), origins=self.values.of(node, at))

    # calls

    def _call(self, raw: RawCall, scope: Scope, known: dict[int, int]) -> Call | None:
        if not self._may_matter(raw, scope):
            return None
        if is_dead(self.values, raw.block, scope) or has_left(self.values, raw.block, raw.order, scope):
            return None
        at = At(scope, raw.order, raw.block)
        what = meaning(self.values, raw.node, at)
        if (
            not what.does
            and what.target is None
            and not self._may_answer(raw)
            and not self._handed_on(raw, scope)
            and not _is_work_in_a_branch(raw)
        ):
            return None
        target = self._target(what, raw.node, at) or self._handed_on(raw, scope)
        name = what.name if what.target is None else what.target.name
        makes = what.target is not None and what.target.is_class
        given = self._arguments(raw, at) if what.does in _WITH_ARGUMENTS or makes else ()
        receiver = None
        if isinstance(raw.node.func, ast.Attribute):
            if what.does == "forward":
                receiver = self.value(raw.node.func, at)
                if not receiver.origins:
                    receiver = self.value(raw.node.func.value, at)
            elif what.target is None and (what.name.startswith(".") or what.does == "forward"):
                receiver = self.value(raw.node.func.value, at)
        elif what.does == "forward":
            receiver = self.value(raw.node.func, at)
        return Call(
            place=self._place(scope, raw.node),
            variant=self._suffix(scope),
            text=self.values.text(raw.node, scope),
            name=name,
            does=what.does,
            order=raw.order,
            arguments=given,
            receiver=receiver,
            target=target,
            guards=self.guards(raw.block, raw.order, scope),
            loops=self._around(raw.block, known),
            contexts=self._within(raw.block, scope),
        )

    def _may_answer(self, raw: RawCall) -> bool:
        """Whether a method of an unknown object, in a branch, may be one of the program's own."""
        func = raw.node.func
        branch = raw.block.form in {"if", "else", "case"}
        return branch and isinstance(func, ast.Attribute) and func.attr in self.values.index.owners

    def _handed_on(self, raw: RawCall, scope: Scope) -> str:
        """The function of the program that a call has run later: a handler of events, the work of a thread."""
        func = raw.node.func
        last = func.attr if isinstance(func, ast.Attribute) else dotted(func)
        if last not in names.HANDS_ON:
            return ""
        position = names.HANDS_ON[last]
        given = [one.value for one in raw.node.keywords if one.arg in {"target", "function", "func", "handler"}]
        if position is not None:
            given += raw.node.args[position : position + 1]
        for node in given:
            meant = self.values.index.target(scope, dotted(node)) if dotted(node) else None
            if meant is not None and not meant.is_class:
                return meant.id
        return ""

    def _target(self, what: Meaning, node: ast.Call, at: At) -> str:
        if what.target is None:
            return ""
        if what.target.is_class:
            project = self.values.project
            made = project.method(what.target, "__init__") or project.method(what.target, "__post_init__")
            return made.id if made is not None else ""
        context = self.values.entered_by(what.target, node, at)
        return f"{what.target.id}{context.suffix if context is not None else ''}"

    def _may_matter(self, raw: RawCall, scope: Scope) -> bool:
        func = raw.node.func
        name = dotted(func)
        if any(one.arg in SHARD for one in raw.node.keywords):
            return True
        if isinstance(func, ast.Attribute):
            last = func.attr
            if (
                last in _KNOWN_LAST
                or look_up(raw.node) is not None
                or last in self.values.index.owners
                or last[:1].isupper()
            ):
                return True
            if isinstance(func.value, ast.Attribute) and func.value.attr == "grad":
                return True
            if not name:
                return False
            first = name.partition(".")[0]
            if first == "self":
                return True
            found = self.values.project.resolve(scope, name)
            return isinstance(found, Scope) or (isinstance(found, str) and found in names.FUNCTIONS)
        if not name:
            return isinstance(func, ast.Call | ast.Subscript)  # `Fit(config)()`, `BUILDERS["adam"](model)`
        if is_variable(scope, name):
            return True
        found = self.values.project.resolve(scope, name)
        if isinstance(found, str):
            last = found.rpartition(".")[2]
            return found != name or last in _KNOWN_LAST
        return True

    def _arguments(self, raw: RawCall, at: At) -> tuple[Argument, ...]:
        partial = partial_of(self.values, raw.node, at)
        before = [(node, partial[1]) for node in partial[0].args[1:]] if partial is not None else []
        positional = [*before, *positions_of(self.values, raw.node, at)]
        given = [Argument(name=str(number), value=self.value(*one)) for number, one in enumerate(positional[:8])]
        given += self._keywords(raw.node, at)
        if partial is not None:
            known = {one.name for one in given}
            given += [one for one in self._keywords(*partial) if one.name not in known]
        return tuple(given)

    def _keywords(self, node: ast.Call, at: At) -> Iterator[Argument]:
        for keyword in node.keywords[:40]:
            written = items_of(self.values, keyword.value, at) if keyword.arg is None else None
            if written is not None:
                yield from (Argument(name=name, value=self.value(*one)) for name, one in written.items())
            else:
                yield Argument(name=keyword.arg or "**", value=self.value(keyword.value, at))

    # what stands around

    def guards(self, block: Block, order: int, scope: Scope) -> tuple[Guard, ...]:
        """The tests that decide whether a place is reached, outermost first."""
        found = []
        chain = block.chain()
        for number, at in enumerate(chain):
            if (
                at.form in {"if", "else", "case", "while", "and", "or", "except"}
                and not is_taken(self.values, at, scope)
                and (guard := self._guard(at, scope)) is not None
            ):
                found.append(guard)
            inner = chain[number + 1] if number + 1 < len(chain) else None
            before = bisect_left(at.ended, order, key=itemgetter(0))
            for _, ended in at.ended[max(0, before - MOST_EXITS) : before]:
                if (
                    ended is not inner
                    and ended.form in {"if", "else", "case"}
                    and not is_dead(self.values, ended, scope)
                ):
                    guard = self._guard(ended, scope, after=True)
                    if guard is not None and (guard.by_rank or guard.by_local):
                        found.append(guard)
        return tuple(found)

    def _uncalled(self, block: Block, scope: Scope) -> Guard | None:
        guard = self._guard(block, scope)
        return guard if guard is not None and guard.value.may(Kind.FUNCTION) is not None else None

    def _guard(self, block: Block, scope: Scope, *, after: bool = False) -> Guard | None:
        key = (id(block) * 2 + after, id(self.values.context_in(scope)))
        if key not in self._guards:
            self._guards[key] = self._new_guard(block, scope, after=after)
        return self._guards[key]

    def _new_guard(self, block: Block, scope: Scope, *, after: bool) -> Guard | None:
        test = block.test if block.test is not None else getattr(block.node, "test", None)
        if block.form == "except":
            line = block.handler.lineno if block.handler is not None else 1
            file, line = self._line(scope, line)
            text = self.values.text(test, scope) if test is not None else ""
            return Guard(form="except", file=file, line=line, test=text, branch=block.branch, value=Value())
        if test is None:
            return None
        if isinstance(test, ast.Compare) and "__name__" in (self.values.text(test, scope)):
            return Guard(
                form="main", file=scope.file, line=test.lineno, test="__name__", branch=0, value=Value(), state=True
            )
        at = At(scope, block.order, block.parent or block)
        value = _as_test(self._truth(self.value(test, at), chosen=block.form == "case"))
        if _asks_for_none(test):  # what an object holds does not decide whether there is one
            value = replace(value, origins=tuple(one for one in value.origins if one.kind is not Kind.LOCAL))
        words = tuple(dict.fromkeys(parts(test)))
        ranked = value.may(*RANK_KINDS)
        unsure = ranked is not None and ranked.note == "uncertain"
        state = (ranked is None or unsure) and any(
            word in name.lower() for name in words for word in names.STATE_WORDS
        )  # fmt: skip
        file, line = self._line(scope, getattr(block.node, "lineno", test.lineno))
        form = "after" if after else block.form
        return Guard(
            form=form,
            file=file,
            line=line if form == "after" else self._line(scope, test.lineno)[1],
            test=self.values.text(test, scope),
            branch=block.branch,
            value=value,
            names=words,
            of_rank=_of_rank(ranked, block, after=after),
            state=state,
        )

    def _truth(self, value: Value, *, chosen: bool = False) -> Value:
        """What a test depends on where it asks an object of the program whose class says when it is true.

        A choice between two members counts in a `match` alone: elsewhere both are true, or both are false.
        """
        found = list(value.origins if chosen else truth(value.origins))
        for origin in value.origins:
            cls = class_named(self.values, origin.note) if origin.kind is Kind.INSTANCE else None
            asked = self.values.project.method(cls, "__bool__") if cls is not None else None
            if asked is not None:
                found += self.values.returned(asked)
        return replace(value, origins=joined(found))

    def _around(self, block: Block, known: dict[int, int]) -> tuple[int, ...]:
        return tuple(known[id(at)] for at in block.chain() if id(at) in known)

    def _within(self, block: Block, scope: Scope) -> tuple[Context, ...]:
        return tuple(self._context(at, scope) for at in block.chain() if at.form == "with")

    def _context(self, block: Block, scope: Scope) -> Context:
        key = (id(block), id(self.values.context_in(scope)))
        if key not in self._contexts:
            item = block.node
            assert isinstance(item, ast.withitem)
            node, plain = item.context_expr, True
            at = At(scope, block.order, block.parent or block)
            if isinstance(node, ast.Name | ast.Attribute):
                assigned = scope.definitions.get(dotted(node), [])
                before = [definition for definition in assigned if definition.order < block.order]
                plain = (
                    len(before) == 1
                    and isinstance(before[0].value, ast.Call | ast.IfExp)
                    and before[0].block is block.parent
                )
                node = before[0].value if plain and before[0].value is not None else node
            name, receiver, target = "", Value(), ""
            if isinstance(node, ast.IfExp) and (
                _is_state(node.test, scope, self.values, at) or _is_setting(node.test, scope)
            ):
                node = next((one for one in (node.body, node.orelse) if not _does_nothing(one)), node)
            if isinstance(node, ast.Call):
                what = meaning(self.values, node, at)
                name = what.name
                target = what.target.id if what.target is not None else ""
                owner = node.func.value if isinstance(node.func, ast.Attribute) and name.startswith(".") else None
                receiver = self.value(owner, at) if owner is not None else Value()
            else:
                plain = False
            _, line = self._line(scope, item.context_expr.lineno)
            self._contexts[key] = Context(
                name=name,
                text=self.values.text(item.context_expr, scope),
                line=line,
                value=receiver,
                plain=plain,
                target=target,
            )
        return self._contexts[key]

    # loops and exits

    def _loop(self, raw: RawLoop, scope: Scope, known: dict[int, int]) -> Loop:
        node = raw.node
        at = At(scope, raw.order, raw.block)
        place = self._place(scope, node)
        if isinstance(node, ast.While):
            over, counts, turns, head = (
                self._truth(self.value(node.test, at)),
                True,
                None,
                f"while {self.values.text(node.test, scope)}",
            )
        else:
            loader = loader_in(self.values, node.iter, at)
            over = self.value(node.iter, at)
            if loader is not None:
                over = Value(text=over.text, origins=(loader, *(one for one in over.origins if one != loader)))
            name = dotted(node.iter.func) if isinstance(node.iter, ast.Call) else ""
            counts, turns = _counts(node.iter, name)
            counts = counts or self._yields_numbers(node.iter, at)
            head = f"for {self.values.text(node.target, scope)} in {over.text}"
        return Loop(
            place=place,
            head=head,
            order=raw.order,
            last_order=raw.last_order,
            over=over,
            counts=counts,
            turns=turns,
            starts=self._starts(node, at),
            guards=self.guards(raw.block, raw.order, scope),
            loops=self._around(raw.block, known),
            contexts=self._within(raw.block, scope),
        )

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

    def _starts(self, node: ast.For | ast.AsyncFor | ast.While, at: At) -> Value | None:
        counted = node.iter if isinstance(node, ast.For) else None
        if isinstance(counted, ast.Call) and dotted(counted.func) == "range" and len(counted.args) > 1:
            return self.value(counted.args[0], at)
        return None

    def _cuts(self, scope: Scope) -> Iterator[Cut]:
        for raw in scope.cuts:
            at = At(scope, raw.order, raw.block)
            bounds = [origin for part in raw.parts for origin in self.values.of(part, at)]
            ranks = [origin for origin in bounds if origin.kind in RANK_KINDS]
            certain = [origin for origin in ranks if origin.note != "uncertain"]
            if certain:
                whole, text = self.value(raw.whole, at), self.values.text(raw.node, scope)
                place = self._place(scope, raw.node)
                yield Cut(
                    place=place,
                    text=text,
                    whole=whole,
                    by=certain[0],
                    of=next((one for one in bounds if one.kind in {Kind.WORLD_SIZE, Kind.DEVICE_COUNT}), None),
                    even=leaves_no_remainder(scope),
                )

    def _changes(self, scope: Scope) -> Iterator[Change]:
        for key, definitions in scope.definitions.items():
            owner, _, attribute = key.rpartition(".")
            if not owner or owner == "self" or "[" in key:
                continue
            forms = {"assign", "augment"} if "grad" in (attribute, owner.rpartition(".")[2]) else {"assign"}
            for definition in definitions:
                if definition.form not in forms or definition.value is None:
                    continue
                if is_dead(self.values, definition.block, scope) or has_left(
                    self.values, definition.block, definition.order, scope
                ):
                    continue
                at = At(scope, definition.order, definition.block)
                value = _scaled(self.value(definition.value, at), definition.operator)
                if attribute in _WATCHED or len(forms) > 1 or value.may(Kind.MODEL):
                    file, line = self._line(scope, definition.line)
                    yield Change(
                        place=Place(file=file, line=line, column=1, function=scope.name),
                        key=key,
                        value=value,
                        order=definition.order,
                        owner=Value(text=owner, origins=self._owner(owner, at)),
                        guards=self.guards(definition.block, definition.order, scope),
                    )

    def _owner(self, owner: str, at: At) -> tuple[Origin, ...]:
        """What the object of a change is: a name, or an attribute of the class around."""
        first, _, rest = owner.partition(".")
        cls = at.scope.of_class
        if first == "self" and rest and "." not in rest and cls is not None and owner not in at.scope.definitions:
            return attribute_of(self.values, cls, rest)
        return self.values.name(owner, at) if not rest or owner in at.scope.definitions else ()

    def _exit(self, raw: RawExit, scope: Scope, known: dict[int, int]) -> Exit:
        return Exit(
            place=self._place(scope, raw.node),
            form=raw.form,
            order=raw.order,
            fails=raw.fails,
            since=raw.since,
            empty=isinstance(raw.node, ast.Return) and _is_none(raw.node.value),
            guards=self.guards(raw.block, raw.order, scope),
            loops=self._around(raw.block, known),
        )

    # decorators

    def _full(self, scope: Scope, decorator: ast.expr) -> str:
        node = decorator.func if isinstance(decorator, ast.Call) else decorator
        name = dotted(node)
        meant = self.values.project.resolve(scope.parent or scope, name) if name else name
        return meant.id if isinstance(meant, Scope) else meant if isinstance(meant, str) else name

    def _decorated(self, scope: Scope) -> Iterator[Guard]:
        for decorator in scope.decorators:
            node = decorator.func if isinstance(decorator, ast.Call) else decorator
            name = dotted(node)
            if not name:
                continue
            meant = self.values.project.resolve(scope.parent or scope, name)
            inner = self._guarded_by(meant) if isinstance(meant, Scope) else None
            if inner is None and isinstance(meant, Scope) and isinstance(decorator, ast.Call):
                given = (self._guarded_by(made) for made in meant.functions.values())  # `@main_only(wait=True)`
                inner = next((guard for guard in given if guard is not None), None)
            if inner is not None or name.rpartition(".")[2] in names.RANK_DECORATORS:
                file, line = self._line(scope, decorator.lineno)
                origin = Origin(kind=Kind.RANK, text=f"@{name}", note="first")
                yield Guard(
                    form="decorator", file=file, line=line, test=f"@{name}", branch=0, of_rank="first",
                    value=Value(text=f"@{name}", origins=(origin,)),
                )  # fmt: skip

    def _guarded_by(self, decorator: Scope) -> Guard | None:
        """The test of the rank around the call of the function that a decorator of the program is given."""
        for inner in decorator.functions.values():
            for call in inner.calls:
                if dotted(call.node.func) in decorator.parameters:
                    for guard in self.guards(call.block, call.order, inner):
                        if guard.by_rank is not None:
                            return guard
        return None


def _is_work_in_a_branch(raw: RawCall) -> bool:
    """Whether a call of an unknown function, as a statement of its own or not, stands in a branch: one rank may work there."""
    branch = raw.block.form in {"if", "else", "case"}
    return branch and _WORK.search(dotted(raw.node.func).rpartition(".")[2]) is not None


def _scaled(value: Value, operator: str) -> Value:
    """What `x.grad /= n` takes: a world size that divides."""
    note = {"Div": "divides", "Mult": "multiplies"}.get(operator, "")
    if not note:
        return value
    sized = (replace(one, note=note) if one.kind is Kind.WORLD_SIZE else one for one in value.origins)
    return replace(value, origins=tuple(sized))


def _is_none(node: ast.expr | None) -> bool:
    return node is None or (isinstance(node, ast.Constant) and node.value is None)


def _does_nothing(node: ast.expr) -> bool:
    """Whether a context is `nullcontext()` or one of the names that people use in its place."""
    name = dotted(node.func) if isinstance(node, ast.Call) else ""
    return name.rpartition(".")[2] in {"nullcontext", "suppress", "ExitStack"}


def _is_state(test: ast.expr, scope: Scope, values: Values, at: At) -> bool:
    """Whether a test asks whether there are several ranks, and nothing else."""
    if isinstance(test, ast.UnaryOp):
        return _is_state(test.operand, scope, values, at)
    asked = test.func if isinstance(test, ast.Call) else test
    name = dotted(asked).rpartition(".")[2].lower()
    return bool(name) and any(word in name for word in names.STATE_WORDS)


def _is_setting(test: ast.expr, scope: Scope) -> bool:
    """Whether a test asks whether a number that the function never changes is above one: `accumulation_steps > 1`."""
    match test:
        case ast.Compare(left=left, ops=[ast.Gt() | ast.NotEq()], comparators=[ast.Constant(value=1)]):
            key = dotted(left)
        case _:
            return False
    words = key.lower()
    given = scope.definitions.get(key, ())
    named = "accum" in words and not any(word in words for word in ("count", "idx", "index"))
    return named and all(one.form == "assign" and one.block is scope.root for one in given)


def _asks_for_none(test: ast.expr) -> bool:
    """Whether a test is `x is None` or `x is not None`."""
    while isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
        test = test.operand
    return (
        isinstance(test, ast.Compare)
        and all(isinstance(op, ast.Is | ast.IsNot) for op in test.ops)
        and all(isinstance(one, ast.Constant) and one.value is None for one in test.comparators)
    )


def _as_test(value: Value) -> Value:
    """What a name depends on where it is asked whether it holds something: an object of some ranks asks for the rank."""
    if value.may(Kind.SOME_RANKS) is None:
        return value
    origins = (replace(one, kind=Kind.RANK) if one.kind is Kind.SOME_RANKS else one for one in value.origins)
    return replace(value, origins=tuple(origins))


def _counts(node: ast.expr, name: str) -> tuple[bool, int | None]:
    last = name.rpartition(".")[2]
    if isinstance(node, ast.Call) and last in {"tqdm", "trange", "enumerate", "track"} and node.args:
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


def _of_rank(origin: Origin | None, block: Block, *, after: bool) -> str:
    if origin is None:
        return ""
    note = origin.note
    if note not in _FLIP:
        note = "others" if origin.kind is not Kind.RANK or note == "by name" else ""
    flips = block.form in {"else", "or"}
    if flips:
        note = _FLIP.get(note, "")
    return _FLIP.get(note, "") if after else note
