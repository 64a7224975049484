"""The facts about one function: its calls that matter, its loops and its exits, with the tests around them."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass, replace

from ddpdoctor.evidence.code_values import RANK_KINDS, Kind, Origin, Value
from ddpdoctor.evidence.training_code import STOPS, Argument, Call, Change, Cut, Exit, Function, Guard, Loop, Place
from ddpdoctor.source import torch_names as names
from ddpdoctor.source.call_effects import SHUFFLES
from ddpdoctor.source.call_meanings import SHARD, Meaning, is_variable, meaning
from ddpdoctor.source.decided_branches import has_left, is_dead
from ddpdoctor.source.dotted_names import dotted
from ddpdoctor.source.framework_hooks import FrameworkHooks
from ddpdoctor.source.guards import Guards, line_of, value_of
from ddpdoctor.source.iteration import loader_in
from ddpdoctor.source.lengths import is_even
from ddpdoctor.source.listed_functions import functions_of_each
from ddpdoctor.source.listed_objects import methods_of_each
from ddpdoctor.source.loop_counters import never_holds
from ddpdoctor.source.object_attributes import held_around, named_object
from ddpdoctor.source.origins import At
from ddpdoctor.source.registries import look_up
from ddpdoctor.source.scopes import Block, Definition, RawCall, RawExit, RawLoop, Scope
from ddpdoctor.source.values import Values
from ddpdoctor.source.with_blocks import WithBlocks
from ddpdoctor.source.written_calls import partial_of
from ddpdoctor.source.written_dicts import items_of, positions_of

_WATCHED = frozenset({"requires_grad", "require_backward_grad_sync", "grad", *STOPS})
_WORK = re.compile(
    r"(?i)tokeni[sz]e|preprocess|prepare|build|benchmark|evaluate|extract|convert|encode|download|cache|featuri[sz]e"
)
_WITH_ARGUMENTS = frozenset(names.FUNCTIONS.values()) | frozenset(names.ENDS.values()) | {
    "collective", "backward", "step", "set-epoch", "load-state", "to", "cuda", "log", "save", "forward", "dataset",
    "unscale", "scale", "prepare", "shard", "change-gradient", "watches", "run-engine",
}  # fmt: skip
_SHOWS = frozenset({"print", "log"})
_GO_OVER = frozenset({"tqdm", "enumerate", "track"})
_RANGES = frozenset({"range", "trange"})
_OF_FILES = frozenset({"save", "load"})
_ITSELF = (("self",), ("cls",))
_KNOWN_LAST = (
    frozenset(name.rpartition(".")[2] for name in names.FUNCTIONS)
    | frozenset(names.ENDS)
    | frozenset(names.METHODS)
    | frozenset(name.rpartition(".")[2] for name in names.COMMANDS)
    | names.COLLECTIVES
    | names.OF_ACCELERATE
    | names.OF_FABRIC
    | names.OF_DEEPSPEED
    | frozenset().union(*names.RUNS_OF_TRAINERS.values())
    | {*names.HANDS_ON}
    | {"run", "forward", "module", "model", "net", "network", "ddp_model", "ddp"}
)


@dataclass(eq=False)
class FunctionFacts:
    """Makes the facts about the functions of one run."""

    values: Values
    started: frozenset[int] = frozenset()

    def __post_init__(self) -> None:
        """Nothing is known of any test or block yet."""
        self.guards = Guards(self.values)
        self._with_blocks = WithBlocks(self.values)
        self._loops: dict[int, tuple[int, ...]] = {}
        self._hooks = FrameworkHooks(self.values, self.guards)

    def of(self, scope: Scope) -> Iterator[Function]:
        """The facts about one function: once, or once for each call that it is looked at by."""
        for context in self.values.contexts.of(scope) or (None,):
            yield self.values.within(context, lambda: self._of(scope))

    def _suffix(self, scope: Scope) -> str:
        context = self.values.context_in(scope)
        return context.suffix if context is not None else ""

    def _of(self, scope: Scope) -> Function:
        file, line = line_of(self.values, scope, getattr(scope.node, "lineno", 1))
        known = {id(loop.body): loop.order for loop in scope.loops}
        return Function(
            id=f"{scope.id}{self._suffix(scope)}",
            place=Place(file=file, line=line, column=getattr(scope.node, "col_offset", 0) + 1, function=scope.name),
            calls=tuple(
                each
                for raw in scope.calls
                if (call := self._call(raw, scope, known)) is not None
                for each in self._of_each(call, raw, scope)
            ),
            loops=tuple(self._loop(raw, scope, known) for raw in scope.loops),
            exits=tuple(
                self._exit(raw, scope, known) for raw in scope.exits if not is_dead(self.values, raw.block, scope)
            ),
            cuts=tuple(self._cuts(scope)),
            divided=tuple(self._divided(scope)),
            changes=(*self._changes(scope), *self._late_changes(scope)),
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

    def _loss(self, scope: Scope) -> Value | None:
        if not scope.returns or not self._hooks.gives_a_loss(scope):
            return None
        return Value(text=self.values.text(scope.returns[-1][0], scope), origins=self.values.returned(scope))

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

    def _place(self, scope: Scope, node: ast.AST) -> Place:
        file, line = line_of(self.values, scope, getattr(node, "lineno", 1))
        return Place(file=file, line=line, column=getattr(node, "col_offset", 0) + 1, function=scope.name)

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
            and not self._is_of_list(raw, at)
            and not _is_work_in_a_branch(raw)
        ):
            return None
        target = self._target(what, raw.node, at) or self._handed_on(raw, scope)
        name = what.name if what.target is None else what.target.name
        makes = what.target is not None and what.target.is_class
        given = self._arguments(raw, at) if what.does in _WITH_ARGUMENTS or makes else ()
        if what.does in _SHOWS:
            given += tuple(self._parts_of_texts(raw.node, at))
        receiver = None
        if isinstance(raw.node.func, ast.Attribute):
            if what.does == "forward":
                receiver = value_of(self.values, raw.node.func, at)
                if not receiver.origins:
                    receiver = value_of(self.values, raw.node.func.value, at)
            elif what.target is None and (what.name.startswith(".") or what.does == "forward"):
                receiver = value_of(self.values, raw.node.func.value, at)
                if what.does == "load-state" and not receiver.origins:
                    receiver = replace(receiver, origins=self._part_of_wrapped(raw.node.func.value, at))
        elif what.does == "forward":
            receiver = value_of(self.values, raw.node.func, at)
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
            guards=self.guards.around(raw.block, raw.order, scope),
            loops=self._around(raw.block, known),
            contexts=self._with_blocks.around(raw.block, scope),
            given=self._given(what, raw.node, scope),
        )

    def _part_of_wrapped(self, node: ast.expr, at: At) -> tuple[Origin, ...]:
        """The module inside a wrapper, where an expression is a part of it: `ddp.module.backbone`."""
        around = held_around(self.values, node, at)
        wrapped = {Kind.WRAPPED, Kind.BARE}
        return (
            tuple(replace(one, kind=Kind.BARE) for one in around) if all(one.kind in wrapped for one in around) else ()
        )

    def _given(self, what: Meaning, node: ast.Call, scope: Scope) -> tuple[tuple[str, str], ...]:
        """The parameters of a function of the program that saves or loads, with what each gets, as written."""
        target = what.target
        if target is None or target.is_class or not any(call.last in _OF_FILES for call in target.calls):
            return ()
        first = 1 if target.parent is not None and target.parent.is_class and target.parameters[:1] in _ITSELF else 0
        given = dict(zip(target.parameters[first:], node.args, strict=False))
        given |= {one.arg: one.value for one in node.keywords if one.arg is not None}
        starred = any(isinstance(one, ast.Starred) for one in node.args)
        return () if starred else tuple((name, self.values.text(value, scope)) for name, value in given.items())

    def _of_each(self, call: Call, raw: RawCall, scope: Scope) -> Iterator[Call]:
        """The calls that a call stands for: one for each object of a list, where the ranks put it there."""
        if call.does and not call.target and isinstance(raw.node.func, ast.Attribute):
            yield call
            return
        at = At(scope, raw.order, raw.block)
        found = list(methods_of_each(self.values, raw.node, at)) if call.target or self._is_of_list(raw, at) else []
        functions = [] if call.target or call.does or found else list(functions_of_each(self.values, raw.node, at))
        for method, put in found:
            guards = (each for each in self.guards.around(put.block, put.order, put.scope) if each.form != "main")
            yield replace(call, target=method.id, guards=(*guards, *call.guards))
        for function in functions:
            yield replace(call, target=function.id)
        if not found and not functions:
            yield call

    def _is_of_list(self, raw: RawCall, at: At) -> bool:
        """Whether a call is one of a loop's variable, or of a method that `getattr` takes of it, and the list is known."""
        func = raw.node.func
        if isinstance(func, ast.Call):
            return next(methods_of_each(self.values, raw.node, at), None) is not None
        return isinstance(func, ast.Name) and next(functions_of_each(self.values, raw.node, at), None) is not None

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
        func, name = raw.node.func, raw.name
        for keyword in raw.node.keywords:
            if keyword.arg in SHARD:
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
            full = raw.meant if isinstance(raw.meant, str) else ""
            return isinstance(raw.meant, Scope) or full in names.FUNCTIONS or full.startswith(names.BACKBONES)
        if not name:
            return isinstance(func, ast.Call | ast.Subscript)  # `Fit(config)()`, `BUILDERS["adam"](model)`
        if is_variable(scope, name):
            return True
        if isinstance(raw.meant, str):
            return raw.meant != name or raw.meant.rpartition(".")[2] in _KNOWN_LAST
        return True

    def _arguments(self, raw: RawCall, at: At) -> tuple[Argument, ...]:
        partial = partial_of(self.values, raw.node, at)
        before = [(node, partial[1]) for node in partial[0].args[1:]] if partial is not None else []
        positional = [*before, *positions_of(self.values, raw.node, at)]
        given = [
            Argument(name=str(number), value=value_of(self.values, *one)) for number, one in enumerate(positional[:8])
        ]
        given += self._keywords(raw.node, at)
        if partial is not None:
            known = {one.name for one in given}
            given += [one for one in self._keywords(*partial) if one.name not in known]
        return tuple(given)

    def _parts_of_texts(self, node: ast.Call, at: At) -> Iterator[Argument]:
        """What the formatted texts that a call shows consist of: names in one text can be of different things."""
        for number, text in enumerate(node.args[:8]):
            for part in text.values if isinstance(text, ast.JoinedStr) else ():
                if isinstance(part, ast.FormattedValue):
                    yield Argument(name=str(number), value=value_of(self.values, part.value, at))

    def _keywords(self, node: ast.Call, at: At) -> Iterator[Argument]:
        for keyword in node.keywords[:40]:
            written = items_of(self.values, keyword.value, at) if keyword.arg is None else None
            if written is not None:
                yield from (Argument(name=name, value=value_of(self.values, *one)) for name, one in written.items())
            else:
                yield Argument(name=keyword.arg or "**", value=value_of(self.values, keyword.value, at))

    def _around(self, block: Block, known: dict[int, int]) -> tuple[int, ...]:
        """The orders of the loops around a block; most calls stand in a block that others stand in, too."""
        if id(block) not in self._loops:
            self._loops[id(block)] = tuple(known[id(at)] for at in block.chain() if id(at) in known)
        return self._loops[id(block)]

    # loops and exits

    def _loop(self, raw: RawLoop, scope: Scope, known: dict[int, int]) -> Loop:
        node = raw.node
        at = At(scope, raw.order, raw.block)
        place = self._place(scope, node)
        if isinstance(node, ast.While):
            over, counts, turns, head = (
                self.guards.truth(value_of(self.values, node.test, at)),
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
            guards=self.guards.around(raw.block, raw.order, scope),
            loops=self._around(raw.block, known),
            contexts=self._with_blocks.around(raw.block, scope),
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
        while isinstance(counted, ast.Call) and dotted(counted.func).rpartition(".")[2] in _GO_OVER and counted.args:
            counted = counted.args[0]
        if isinstance(counted, ast.Call) and dotted(counted.func) in _RANGES and len(counted.args) > 1:
            return value_of(self.values, counted.args[0], at)
        return None

    def _cuts(self, scope: Scope) -> Iterator[Cut]:
        for raw in scope.cuts:
            at = At(scope, raw.order, raw.block)
            bounds = [origin for part in raw.parts for origin in self.values.of(part, at)]
            ranks = [origin for origin in bounds if origin.kind in RANK_KINDS]
            certain = [origin for origin in ranks if origin.note != "uncertain"]
            if certain:
                whole, text = value_of(self.values, raw.whole, at), self.values.text(raw.node, scope)
                place = self._place(scope, raw.node)
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
        """The calls that shuffle a list of which the function takes the first part and the rest."""
        slices = [raw.node for raw in scope.cuts if isinstance(raw.node, ast.Subscript) and dotted(raw.node.value)]
        bounds = [
            (dotted(one.value), one.slice) for one in slices if isinstance(one.slice, ast.Slice) and not one.slice.step
        ]
        first = {(name, ast.unparse(cut.upper)) for name, cut in bounds if cut.upper is not None and cut.lower is None}
        rest = {(name, ast.unparse(cut.lower)) for name, cut in bounds if cut.lower is not None and cut.upper is None}
        for name, _ in sorted(first & rest):
            for definition in scope.definitions.get(name, ()):
                if isinstance(definition.value, ast.Call) and dotted(definition.value.func) in SHUFFLES:
                    yield self.values.where(definition.value, scope)

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
                value = _scaled(value_of(self.values, definition.value, at), definition.operator)
                if attribute == "require_backward_grad_sync" and never_holds(definition.value, scope):
                    value = replace(value, origins=(Origin(kind=Kind.CONSTANT, text="False"),))
                if attribute in _WATCHED or len(forms) > 1 or value.may(Kind.MODEL):
                    file, line = line_of(self.values, scope, definition.line)
                    yield Change(
                        place=Place(file=file, line=line, column=1, function=scope.name),
                        key=key,
                        value=value,
                        order=definition.order,
                        owner=Value(text=owner, origins=self._owner(owner, definition, at)),
                        guards=self.guards.around(definition.block, definition.order, scope),
                    )

    def _owner(self, name: str, definition: Definition, at: At) -> tuple[Origin, ...]:
        """The object whose attribute is assigned to; of a part of a model, that model, too."""
        named = named_object(self.values, name.removesuffix(".grad"), at)
        if named or definition.owner is None:
            return named
        if (
            isinstance(definition.owner, ast.Attribute) and dotted(definition.owner) == name
        ):  # `net.head.requires_grad_()`
            inner, outer = definition.owner, definition.owner.value
            return (*held_around(self.values, inner, at), *held_around(self.values, outer, at))
        return held_around(self.values, definition.owner, at) if ".module" in name else named

    def _late_changes(self, scope: Scope) -> Iterator[Change]:
        """The changes of parts that no name stands for, where the object that they belong to is known."""
        for raw in scope.changes:
            at = At(scope, raw.order, raw.block)
            value = value_of(self.values, raw.value, at)
            if not raw.key.endswith(".requires_grad") and not value.may(Kind.MODEL):
                continue
            owner = held_around(self.values, raw.owner, at)
            if (
                not owner
                or is_dead(self.values, raw.block, scope)
                or has_left(self.values, raw.block, raw.order, scope)
            ):
                continue
            file, line = line_of(self.values, scope, raw.line)
            yield Change(
                place=Place(file=file, line=line, column=1, function=scope.name),
                key=raw.key,
                value=value,
                order=raw.order,
                owner=Value(text=raw.key.rpartition(".")[0], origins=owner),
                guards=self.guards.around(raw.block, raw.order, scope),
                adds=raw.adds,
            )

    def _exit(self, raw: RawExit, scope: Scope, known: dict[int, int]) -> Exit:
        return Exit(
            place=self._place(scope, raw.node),
            form=raw.form,
            order=raw.order,
            fails=raw.fails,
            since=raw.since,
            empty=isinstance(raw.node, ast.Return) and _is_none(raw.node.value),
            guards=self.guards.around(raw.block, raw.order, scope),
            loops=self._around(raw.block, known),
        )

    # decorators

    def _full(self, scope: Scope, decorator: ast.expr) -> str:
        node = decorator.func if isinstance(decorator, ast.Call) else decorator
        name = dotted(node)
        meant = self.values.project.resolve(scope.parent or scope, name) if name else name
        return meant.id if isinstance(meant, Scope) else meant if isinstance(meant, str) else name


def _is_work_in_a_branch(raw: RawCall) -> bool:
    """Whether a call of an unknown function, as a statement of its own or not, stands in a branch: one rank may work there."""
    branch = raw.block.form in {"if", "else", "case"}
    return branch and _WORK.search(dotted(raw.node.func).rpartition(".")[2]) is not None


def _is_strided(cut: ast.expr) -> bool:
    """Whether a part of a list has a step, or takes the items of which a remainder says so."""
    if isinstance(cut, ast.Subscript) and isinstance(cut.slice, ast.Slice):
        return cut.slice.step is not None
    return any(isinstance(part, ast.Mod) for part in ast.walk(cut))


def _scaled(value: Value, operator: str) -> Value:
    """What `x.grad /= n` takes: a world size that divides."""
    note = {"Div": "divides", "Mult": "multiplies"}.get(operator, "")
    if not note:
        return value
    sized = (replace(one, note=note) if one.kind is Kind.WORLD_SIZE else one for one in value.origins)
    return replace(value, origins=tuple(sized))


def _is_none(node: ast.expr | None) -> bool:
    return node is None or (isinstance(node, ast.Constant) and node.value is None)


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
