"""What the attributes of objects can hold: all that the program assigns to them, and what options give."""

from __future__ import annotations

import ast
from collections.abc import Iterable
from dataclasses import replace
from functools import partial

from ddpdoctor.evidence.code_values import RANK_KINDS, Kind, Link, Origin
from ddpdoctor.source.dataflow.chosen_values import chosen
from ddpdoctor.source.dataflow.held_by_names import held_under
from ddpdoctor.source.dataflow.origins import At, Origins, joined, note_of, or_unknown, with_link, without_context
from ddpdoctor.source.dataflow.reaching_definitions import END, reaching
from ddpdoctor.source.dataflow.returned_values import returned, uncalled
from ddpdoctor.source.dataflow.values import Values
from ddpdoctor.source.names import rank_names
from ddpdoctor.source.names.dotted_names import dotted
from ddpdoctor.source.program.calls_in_programs import MOST_SITES
from ddpdoctor.source.syntax.scopes import Definition, Scope

MOST_BASES = 4  # classes above one whose attributes count
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


def attribute_of(values: Values, cls: Scope, name: str, hops: int = MOST_BASES) -> Origins:
    """What an attribute of a class's objects can hold: all that is assigned to it, or the property of that name."""
    key = (id(cls), f"{hops}.{name}")
    return values.once(key, values.context, values.single, _attribute, values, cls, name, hops)


def _attribute(values: Values, cls: Scope, name: str, hops: int) -> Iterable[Origin]:
    method = values.project.method(cls, name)
    if method is not None:
        is_property = any(dotted(one).endswith("property") for one in (*method.decorators, *_made_of(method, name)))
        return returned(values, method, None, values.single) if is_property else (uncalled(values, method, name),)
    found: list[Origin] = [*_constructed(values, cls, name)]
    given = values.index.attributes.get((id(cls), name), ())
    unknown: list[ast.expr | None] = []
    for scope, definition, key in given:
        held = values.defined(key, definition, scope)
        if not held and definition.form == "assign" and not definition.index and _stays(scope, key, definition):
            unknown.append(definition.value)
        elif not held and definition.form == "for":
            found.append(Origin(kind=Kind.UNKNOWN, text=name))  # a count
        found += held
    found += or_unknown(found, unknown)
    if any(definition.form == "sorted" for _, definition, _ in given):
        found = [one for one in found if one.kind is not Kind.UNORDERED]
    found += chosen(values, [(scope, definition) for scope, definition, _ in given])
    found += _given_outside(values, cls, name)
    for base in values.project.bases(cls) if hops else ():
        if isinstance(base, Scope) and base is not cls:
            found += attribute_of(values, base, name, hops - 1)
    if all(origin.kind is Kind.CONSTANT for origin in found) and _is_filled_in(cls, name, found):
        found.append(Origin(kind=rank_names.RANK_NAMES[name], text=name, note=note_of(name)))
    return found


def _made_of(method: Scope, name: str) -> list[ast.expr]:
    """What a class makes of a method behind it: `property` of `is_main = property(is_main)`."""
    given = method.of_class.definitions.get(name, ()) if method.of_class is not None else ()
    return [one.value.func for one in given if isinstance(one.value, ast.Call)]


def _stays(scope: Scope, key: str, definition: Definition) -> bool:
    """Whether an assignment still counts where its function has ended."""
    possible, _ = reaching(scope.definitions[key], END, scope.root)
    return any(one is definition for one in possible)


def _given_outside(values: Values, cls: Scope, name: str) -> Iterable[Origin]:
    """What is assigned to an attribute of a known object: `state.best = loss`."""
    wanted = f"{cls.file}::{cls.name}"
    for scope, definition, key in values.code.assigned_outside(cls, name):
        owner = named_object(values, key.rpartition(".")[0], At(scope, definition.order, definition.block))
        objects = [one for one in owner if one.kind is Kind.INSTANCE and one.note == wanted]
        if objects and (values.single is None or values.single.made in {without_context(one.made) for one in objects}):
            yield from values.defined(key, definition, scope)


def named_object(values: Values, name: str, at: At) -> Origins:
    """What a name holds at a place, also an attribute of the class around; nothing of other dotted names."""
    first, _, rest = name.partition(".")
    cls = at.scope.of_class
    if first == "self" and rest and "." not in rest and cls is not None and name not in at.scope.definitions:
        return attribute_of(values, cls, rest)
    return held_under(values, name, at) if not rest or name in at.scope.definitions else ()


def held_around(values: Values, node: ast.expr, at: At) -> Origins:
    """The model that an expression is a part of, be it wrapped or not: of `net.module[0].head` what `net.module` is."""
    while True:
        models = tuple(one for one in values.of(node, at) if one.kind in {Kind.MODEL, Kind.WRAPPED, Kind.BARE})
        if models or not isinstance(node, ast.Attribute | ast.Subscript):
            return models
        node = node.value


def attribute_of_self(values: Values, cls: Scope, name: str) -> Origins:
    """What `self.name` can hold in a method of a class; where the class has none, what its subclasses give it.

    A base class reads so what the classes below it set up, and a mixin what the classes beside it do.
    """
    found, whole = values.answers.watch(lambda: attribute_of(values, cls, name))
    if found or not whole:  # what the class gives is still being asked for
        return found
    near = values.code.files_near(cls.file)
    heirs = [one for one in values.index.below.get(id(cls), ()) if one.file in near][:MOST_SITES]
    given = [each for heir in heirs if (each := attribute_of(values, heir, name)) or _gives(values, heir, name)]
    return joined(_agreed(given, name))


def _gives(values: Values, cls: Scope, name: str) -> bool:
    """Whether a class assigns to an attribute, be it something that nothing is known of."""
    return bool(values.index.attributes.get((id(cls), name)))


def _agreed(given: list[Origins], name: str) -> Iterable[Origin]:
    """What subclasses give an attribute; what differs between ranks in some of them alone is not known of the base class."""
    for one in (origin for each in given for origin in each):
        own = one.kind in RANK_KINDS or one.kind in {Kind.LOCAL, Kind.SOME_RANKS}
        alike = RANK_KINDS if one.kind in RANK_KINDS else {one.kind}
        if not own or all(any(other.kind in alike for other in each) for each in given):
            yield one
        elif one.kind in RANK_KINDS:
            yield replace(one, note="uncertain")
        else:
            yield Origin(kind=Kind.UNKNOWN, text=name)


def _constructed(values: Values, cls: Scope, name: str) -> Iterable[Origin]:
    """What a field of a class without a constructor of its own, such as a dataclass, is given where objects are made."""
    if name not in cls.fields or "__init__" in cls.functions:
        return
    position = cls.fields.index(name)
    for caller, call in values.index.constructions.get(id(cls), ())[:MOST_SITES]:
        node = call.node
        if values.single is not None and without_context(values.where(node, caller)) != values.single.made:
            continue
        given = next((one.value for one in node.keywords if one.arg == name), None)
        if given is None and position < len(node.args) and not any(isinstance(a, ast.Starred) for a in node.args):
            given = node.args[position]
        if given is None:
            continue
        file, line = values.project.sources[caller.file].place(node.lineno)
        link = Link(text=f"{name} is given {values.text(given, caller)}", file=file, line=line)
        at, around = At(caller, call.order, call.block), None if values.single is None else values.single.context
        yield from with_link(values.within(around, partial(values.of, given, at)), link)


def field_of(values: Values, owner: str, name: str, file: str) -> Origins:
    """What `owner.name` can hold in a file: all that its programs assign to it, or an option of this name."""
    near = values.code.files_near(file)
    return values.once((id(near), f"{owner}.{name}"), None, None, _field, values, owner, name, near)


def _field(values: Values, owner: str, name: str, near: frozenset[str]) -> Iterable[Origin]:
    found: list[Origin] = []
    for scope, definition, assigned in values.index.fields.get((owner, name), ()):
        if scope.file in near:
            found += values.defined(assigned, definition, scope)
    if found and owner not in ARGUMENT_OBJECTS and all(one.kind is Kind.CONSTANT for one in found):
        found.append(Origin(kind=Kind.UNKNOWN, text=f"{owner}.{name}"))  # another object may have this name
    parsed = not near.isdisjoint(values.index.parsed.get(owner, ()))
    if parsed or owner in ARGUMENT_OBJECTS or owner.endswith(("args", "opt", "config", "cfg")):
        found += _option(values, name, near)
    return found


def held_by_any(values: Values, name: str, file: str) -> Origins:
    """The models, loaders and samplers of an unknown object's attribute, where one class alone has one of this name.

    A callback gets its trainer so: `trainer.model`, `runner.loader`.
    """
    near = values.code.files_near(file)
    return values.once((id(near), f"*.{name}"), None, None, _held_by_any, values, name, near)


def _held_by_any(values: Values, name: str, near: frozenset[str]) -> Iterable[Origin]:
    owners = {
        id(cls): cls
        for scope in values.code.with_attribute(name)
        if scope.file in near and (cls := scope if scope.is_class else scope.of_class) is not None
    }
    if len(owners) != 1:
        return ()
    return (one for one in attribute_of(values, next(iter(owners.values())), name) if one.kind in _HELD)


def _option(values: Values, name: str, near: frozenset[str]) -> Iterable[Origin]:
    for scope, call, word in values.index.options.get(name, ()):
        if scope.file not in near:
            continue
        file, line = values.project.sources[scope.file].place(call.node.lineno)
        default = next((one.value for one in call.node.keywords if one.arg == "default"), None)
        link = (Link(text=f"option {word}", file=file, line=line),)
        kind = rank_names.RANK_NAMES.get(name) or rank_names.RANK_NAMES.get(word.lstrip("-").replace("-", "_"))
        if kind is not None:  # also of `--local-rank` with `dest="gpu"`
            yield Origin(kind=kind, text=word, note="argument", why=link)
        left = values.of(default, At(scope, call.order, call.block))
        if kind is None and left and all(one.kind is Kind.CONSTANT for one in left):
            yield Origin(kind=Kind.UNKNOWN, text=word, note="argument", why=link)
        yield from left


def _is_filled_in(cls: Scope, name: str, known: Iterable[Origin]) -> bool:
    """Whether an attribute for which only constants are known holds the process's rank, which something else fills in.

    A plain `rank` may be that of a matrix: it is the process's beside a world size or a local rank, if it begins as theirs.
    """
    if name not in rank_names.RANK_NAMES or name not in cls.fields or "__init__" in cls.functions:
        return False
    beside = {"world_size", "local_rank"} & {*cls.fields, *cls.definitions}
    return name != "rank" or (bool(beside) and all(one.text in _NO_RANK_YET for one in known))
