"""The facts about the calls of one function: those that a rule may ask for, and what each is given."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass, field, replace

from ddpdoctor.evidence.code_values import Kind, Origin, Value
from ddpdoctor.evidence.training_code import Argument, Call
from ddpdoctor.source.dataflow.call_meanings import SHARDS, is_variable
from ddpdoctor.source.dataflow.decided_branches import has_left, is_dead
from ddpdoctor.source.dataflow.listed_functions import functions_given, functions_of_each
from ddpdoctor.source.dataflow.object_attributes import held_around
from ddpdoctor.source.dataflow.origins import At, Meaning
from ddpdoctor.source.dataflow.values import Values
from ddpdoctor.source.dataflow.weights import weights_of, written_into
from ddpdoctor.source.dataflow.written_calls import partial_of
from ddpdoctor.source.dataflow.written_dicts import items_of, positions_of
from ddpdoctor.source.facts.guards import value_of
from ddpdoctor.source.facts.surroundings import Surroundings
from ddpdoctor.source.names import framework_names
from ddpdoctor.source.names import torch_names as names
from ddpdoctor.source.names.dotted_names import dotted, is_gradient
from ddpdoctor.source.program.registries import look_up
from ddpdoctor.source.syntax.scopes import RawCall, Scope

_WORK = re.compile(
    r"(?i)tokeni[sz]e|preprocess|prepare|build|benchmark|evaluate|extract|convert|encode|download|cache|featuri[sz]e"
)
_WITH_ARGUMENTS = frozenset(names.FUNCTIONS.values()) | frozenset(names.ENDS.values()) | {
    "collective", "backward", "step", "set-epoch", "load-state", "to", "cuda", "log", "save", "forward", "dataset",
    "unscale", "scale", "prepare", "shard", "placed", "change-gradient", "watches", "run-engine", "write",
    "write-weights", "collective-run",
}  # fmt: skip
_SHOWS = frozenset({"print", "log", "write"})
_FILLS_A_FILE = frozenset({"write", "save"})
_BACKWARDS = frozenset({"backward", "manual_backward"})
_MATTERING_KEYWORDS = frozenset({"device"}).union(*SHARDS)
_ITSELF = (("self",), ("cls",))
_NAMELESS = (ast.Call, ast.Subscript, ast.BoolOp, ast.IfExp)
"""What is called and has no name: `Fit(config)()`, `BUILDERS["adam"](model)`, `(net or self.model)(batch)`."""
_KNOWN_LAST = (
    frozenset(name.rpartition(".")[2] for name in names.FUNCTIONS)
    | frozenset(names.ENDS)
    | frozenset(names.METHODS)
    | frozenset(name.rpartition(".")[2] for name in names.COMMANDS)
    | names.COLLECTIVES
    | framework_names.OF_ACCELERATE
    | framework_names.OF_FABRIC
    | framework_names.OF_DEEPSPEED
    | frozenset().union(*framework_names.RUNS_OF_TRAINERS.values())
    | {*names.HANDS_ON}
    | names.OF_GENERATORS
    | names.WRITES
    | {"run", "forward", "module", "model", "net", "network", "ddp_model", "ddp"}
)
_OF_TORCH = frozenset(names.FUNCTIONS) | names.WRITES_ITS_SECOND
_OF_PACKAGES = (names.BACKBONES, names.WRITES_ITS_FIRST)


@dataclass(frozen=True, slots=True)
class CallFacts:
    """Makes the facts about calls."""

    values: Values
    """Tells what is called, and what arguments can be."""
    places: Surroundings
    """Tells where a call stands."""
    _training: dict[int, bool] = field(default_factory=dict)

    def of(self, scope: Scope) -> Iterator[Call]:
        """The calls of a function that may matter."""
        variant = self.places.suffix(scope)
        for raw in scope.calls:
            call = self._call(raw, scope, variant)
            if call is None:
                continue
            if call.does and not call.target and isinstance(raw.node.func, ast.Attribute):
                yield call
            else:
                yield from self._of_each(call, raw, scope)

    def named(self, last: str, scope: Scope) -> Iterator[Call]:
        """The calls of one name in a function."""
        for raw in scope.calls:
            call = self._call(raw, scope) if raw.last == last else None
            if call is not None:
                yield call

    def _call(self, raw: RawCall, scope: Scope, variant: str = "") -> Call | None:
        if not self._may_matter(raw, scope):
            return None
        if self.values.context is not None and (
            is_dead(self.values, raw.block, scope) or has_left(self.values, raw.block, raw.order, scope)
        ):
            return None
        at = At(scope, raw.order, raw.block)
        what = self.values.meaning(raw.node, at)
        if not what.does and self._is_on_a_plain_device(what, raw.node, at):
            what = replace(what, does="placed")
        if (
            not what.does
            and what.target is None
            and not self._may_answer(raw)
            and not self._handed_on(raw, scope)
            and not self._is_of_list(raw, at)
            and not self._is_given(raw, scope)
            and not _is_work_in_a_branch(raw)
        ):
            return None
        name, target, makes = what.name, "", False
        passed: tuple[tuple[str, str], ...] = ()
        if what.target is not None:
            name, makes = what.target.name, what.target.is_class
            target, passed = self._target(what.target, raw.node, at), self._given(what.target, raw.node, scope)
        given = self._arguments(raw, at) if what.does in _WITH_ARGUMENTS or makes else ()
        if what.does in _SHOWS:
            given += tuple(self._parts_of_texts(raw.node, at))
        around = self.places.around(raw.block, raw.order, scope)
        guards = around.guards
        if what.does in _FILLS_A_FILE:
            files = _files_of(raw.node, scope)
            guards += tuple(self.places.guards.after_a_look(files, raw.block, raw.order, scope))
        return Call(
            place=self.places.place(scope, raw.node),
            variant=variant,
            text=self.values.text(raw.node, scope),
            name=name,
            does=what.does,
            order=raw.order,
            arguments=given,
            receiver=self._receiver(what, raw.node, at),
            target=target or self._handed_on(raw, scope),
            guards=guards,
            loops=around.loops,
            contexts=around.contexts,
            given=passed,
        )

    def _is_on_a_plain_device(self, what: Meaning, node: ast.Call, at: At) -> bool:
        """Whether torch makes a tensor or a layer on `cuda` or `cpu`, without a number."""
        given = next((one.value for one in node.keywords if one.arg == "device"), None)
        if given is None or what.target is not None or not what.name.startswith("torch."):
            return False
        found = self.values.of(given, at)
        return bool(found) and all(one.text.strip("\"'") in {"cuda", "cpu"} for one in found)

    def _receiver(self, what: Meaning, node: ast.Call, at: At) -> Value | None:
        """The object that a method is called of; None where that does not matter."""
        func = node.func
        if what.does == "forward":
            receiver = value_of(self.values, func, at)
            if isinstance(func, ast.Attribute) and not receiver.origins:
                return value_of(self.values, func.value, at)
            return receiver
        if what.does == "write-weights" and (into := written_into(what, node)) is not None:
            return Value(text=self.values.text(into, at.scope), origins=weights_of(self.values, into, at))
        if not isinstance(func, ast.Attribute) or what.target is not None or not what.name.startswith("."):
            return None
        receiver = value_of(self.values, func.value, at)
        if what.does == "load-state" and not receiver.origins:
            return replace(receiver, origins=self._part_of_wrapped(func.value, at))
        return receiver

    def _part_of_wrapped(self, node: ast.expr, at: At) -> tuple[Origin, ...]:
        """The module inside a wrapper, where an expression is a part of it: `ddp.module.backbone`."""
        around = held_around(self.values, node, at)
        wrapped = {Kind.WRAPPED, Kind.BARE}
        return (
            tuple(replace(one, kind=Kind.BARE) for one in around) if all(one.kind in wrapped for one in around) else ()
        )

    def _given(self, target: Scope, node: ast.Call, scope: Scope) -> tuple[tuple[str, str], ...]:
        """The parameters of a function of the program with what each gets, as written."""
        if target.is_class:
            return ()
        first = 1 if target.parent is not None and target.parent.is_class and target.parameters[:1] in _ITSELF else 0
        given = dict(zip(target.parameters[first:], node.args, strict=False))
        given |= {one.arg: one.value for one in node.keywords if one.arg is not None}
        starred = any(isinstance(one, ast.Starred) for one in node.args)
        return () if starred else tuple((name, self.values.text(value, scope)) for name, value in given.items())

    def _of_each(self, call: Call, raw: RawCall, scope: Scope) -> Iterator[Call]:
        """The calls that a call stands for: one for each object of a list, where the ranks put it there."""
        at = At(scope, raw.order, raw.block)
        found = list(self.values.methods_of_each(raw.node, at)) if call.target or self._is_of_list(raw, at) else []
        functions = [] if call.target or call.does or found else list(functions_of_each(self.values, raw.node, at))
        if not call.target and any(
            guard.by_rank for guard in call.guards
        ):  # else one caller's function is not another's
            functions += functions_given(self.values, raw.node, at)
        for method, put in found:
            guards = (
                each for each in self.places.guards.around(put.block, put.order, put.scope) if each.form != "main"
            )
            yield replace(call, target=method.id, guards=(*guards, *call.guards))
        for function in functions:
            yield replace(call, target=function.id, name=function.name)
        if not found and not functions:
            yield call

    def _is_of_list(self, raw: RawCall, at: At) -> bool:
        """Whether a call is one of a loop's variable, or of a method that `getattr` takes of it, and the list is known."""
        func = raw.node.func
        if isinstance(func, ast.Call):
            return next(self.values.methods_of_each(raw.node, at), None) is not None
        return isinstance(func, ast.Name) and next(functions_of_each(self.values, raw.node, at), None) is not None

    def _is_given(self, raw: RawCall, scope: Scope) -> bool:
        """Whether a call in a branch is one of a function that callers give."""
        func = raw.node.func
        return raw.block.form in {"if", "else"} and isinstance(func, ast.Name) and func.id in scope.parameters

    def _may_answer(self, raw: RawCall) -> bool:
        """Whether a method of an unknown object, in a branch, may be one of the program's own."""
        func = raw.node.func
        branch = raw.block.form in {"if", "else", "case"}
        return branch and isinstance(func, ast.Attribute) and func.attr in self.values.index.owners

    def _handed_on(self, raw: RawCall, scope: Scope) -> str:
        """The function of the program that a call has run later: a handler of events, the work of a thread."""
        if raw.method not in names.HANDS_ON:
            return ""
        position = names.HANDS_ON[raw.method]
        given = [one.value for one in raw.node.keywords if one.arg in {"target", "function", "func", "handler"}]
        if position is not None:
            given += raw.node.args[position : position + 1]
        for node in given:
            meant = self.values.index.target(scope, dotted(node)) if dotted(node) else None
            if meant is not None and not meant.is_class:
                return meant.id
        return ""

    def _target(self, target: Scope, node: ast.Call, at: At) -> str:
        if target.is_class:
            project = self.values.project
            made = project.method(target, "__init__") or project.method(target, "__post_init__")
            return made.id if made is not None else ""
        context = self.values.entered_by(target, node, at)
        return f"{target.id}{context.suffix if context is not None else ''}"

    def _may_matter(self, raw: RawCall, scope: Scope) -> bool:
        func, name = raw.node.func, raw.name
        for keyword in raw.node.keywords:
            if keyword.arg in _MATTERING_KEYWORDS:
                return True
        if type(func) is ast.Attribute:
            last = func.attr
            if (
                last in _KNOWN_LAST
                or look_up(raw.node) is not None
                or last in self.values.index.owners
                or last[:1].isupper()
                or (type(func.value) is ast.Attribute and func.value.attr == "module")
            ):
                return True
            if is_gradient(func.value):
                return True
            held = isinstance(func.value, ast.Name) and func.value.id != "self"
            if held and self._trains(scope) and self._is_inside_a_wrapper(func.value, raw, scope):
                return True
            if not name:
                return False
            first = name.partition(".")[0]
            if first == "self":
                return True
            full = raw.meant if type(raw.meant) is str else ""
            return isinstance(raw.meant, Scope) or full in _OF_TORCH or full.startswith(_OF_PACKAGES)
        if not name:
            return isinstance(func, _NAMELESS)
        if is_variable(scope, name):
            return True
        if type(raw.meant) is str:
            return raw.meant != name or raw.meant.rpartition(".")[2] in _KNOWN_LAST
        return True

    def _is_inside_a_wrapper(self, node: ast.expr, raw: RawCall, scope: Scope) -> bool:
        """Whether a variable holds the module inside of a wrapper: `core = model.module`."""
        known = isinstance(node, ast.Name) and is_variable(scope, node.id)
        found = self.values.of(node, At(scope, raw.order, raw.block)) if known else ()
        return any(one.kind is Kind.BARE for one in found)

    def _trains(self, scope: Scope) -> bool:
        """Whether a function makes a backward: what it reads from a tensor then matters, as in `loss.item()`."""
        if id(scope) not in self._training:
            made = [one.attr for raw in scope.calls if isinstance(one := raw.node.func, ast.Attribute)]
            self._training[id(scope)] = not _BACKWARDS.isdisjoint(made)
        return self._training[id(scope)]

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


def _files_of(node: ast.Call, scope: Scope) -> frozenset[str]:
    """The names that a call which writes is given, or that `with open(out) as file` gives to its `file`."""
    owner = node.func.value if isinstance(node.func, ast.Attribute) else None
    given = scope.definitions.get(owner.id, ()) if isinstance(owner, ast.Name) else ()
    opened = (one.value.args[:1] for one in given if one.form == "with" and isinstance(one.value, ast.Call))
    named = [*node.args, *(each for part in opened for each in part), *([owner] if owner is not None else [])]
    return frozenset(name for one in named if (name := dotted(one)))


def _is_work_in_a_branch(raw: RawCall) -> bool:
    """Whether a call of an unknown function, as a statement of its own or not, stands in a branch: one rank may work there."""
    branch = raw.block.form in {"if", "else", "case"}
    return branch and _WORK.search(dotted(raw.node.func).rpartition(".")[2]) is not None
