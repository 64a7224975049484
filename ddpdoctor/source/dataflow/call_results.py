"""What a call gives."""

from __future__ import annotations

import ast
from collections.abc import Iterable
from dataclasses import replace
from functools import partial

from ddpdoctor.evidence.code_values import RANK_KINDS, Kind, Origin
from ddpdoctor.source.dataflow.call_meanings import canonical
from ddpdoctor.source.dataflow.data_sets import divided, is_streamed, subset
from ddpdoctor.source.dataflow.decided_branches import alive
from ddpdoctor.source.dataflow.iteration import of_turns
from ddpdoctor.source.dataflow.lengths import is_certain_rank, of_length
from ddpdoctor.source.dataflow.literals import known_literal
from ddpdoctor.source.dataflow.origins import At, Meaning, Origins, environment, joined
from ddpdoctor.source.dataflow.package_calls import carried, of_package
from ddpdoctor.source.dataflow.parsed_options import parsed
from ddpdoctor.source.dataflow.returned_values import returned
from ddpdoctor.source.dataflow.single_objects import SingleObject
from ddpdoctor.source.dataflow.values import Values
from ddpdoctor.source.dataflow.written_calls import of_lambda, with_literals
from ddpdoctor.source.dataflow.written_dicts import is_environment
from ddpdoctor.source.names import rank_names
from ddpdoctor.source.names.dotted_names import dotted
from ddpdoctor.source.program.passed_through import given_back, itself
from ddpdoctor.source.program.shared_values import makes_collective, makes_equal
from ddpdoctor.source.syntax.scopes import Scope

_SIZES = frozenset({"dim", "ndimension", "size", "numel", "is_floating_point", "element_size"})
"""Methods of tensors whose answers ranks have alike."""

_MAKES = {
    "wrap-ddp": Kind.WRAPPED, "wrap-fsdp": Kind.WRAPPED, "sampler": Kind.SAMPLER, "loader": Kind.LOADER,
    "accelerator": Kind.OBJECT, "fabric": Kind.OBJECT, "evaluator": Kind.OBJECT, "load": Kind.OBJECT,
    "optimizer": Kind.OBJECT, "plateau": Kind.OBJECT, "schedule": Kind.OBJECT, "scaler": Kind.OBJECT, "zero": Kind.OBJECT,
    "deepspeed": Kind.OBJECT, "metric": Kind.OBJECT, "own-metric": Kind.OBJECT,
    "plain-sampler": Kind.OBJECT, "dataset": Kind.DATASET, "batch-norm": Kind.MODEL,
    "state-dict": Kind.OBJECT, "new-group": Kind.OBJECT, "no-sync": Kind.OBJECT, "trainer": Kind.OBJECT,
    "lightning-trainer": Kind.OBJECT, "hf-trainer": Kind.OBJECT, "start-context": Kind.OBJECT,
    "engine": Kind.OBJECT, "job-environment": Kind.OBJECT,
}  # fmt: skip
"""What known calls make."""


_TELLS_THE_PROCESS = frozenset({"num_process", "process_id", None})
"""What a metric of `evaluate` is given to compute of all processes."""
_DRAWS_AN_ORDER = frozenset({"permutation", "randperm", "shuffle", "choice"})


def result(values: Values, node: ast.Call, at: At) -> Iterable[Origin]:
    """What a call gives."""
    found = tuple(_result(values, node, at))
    if id(node) in values.code.wrapped and not any(one.kind in {Kind.MODEL, Kind.WRAPPED, Kind.BARE} for one in found):
        name = values.meaning(node, at).name
        return (Origin(kind=Kind.MODEL, text=name, made=values.where(node, at.scope)),)
    return found


def _result(values: Values, node: ast.Call, at: At) -> Iterable[Origin]:
    what = values.meaning(node, at)
    last = what.name.rpartition(".")[2]
    if what.target is not None:
        return _from_program(values, node, what, at)
    if what.does:
        made = _made(values, node, what, at)
        if made is not None:
            return made
    if (of_this := of_lambda(values, node, at)) is not None:
        return of_this
    if what.does == "parse-options":
        return parsed(values, node, 0, at)
    full = canonical(what.name)
    if full in rank_names.CALLED:
        note = (
            "uncertain"
            if last == "get_rank" and (node.args or any(one.arg == "group" for one in node.keywords))
            else ""
        )
        kind = Kind.RANK if note else rank_names.CALLED[full]
        return (Origin(kind=kind, text=f"{dotted(node.func)}()", note=note or rank_names.OWN.get(full, "")),)
    if last in _SIZES and isinstance(node.func, ast.Attribute):
        return of_length(values.of(node.func.value, at))
    if full in rank_names.DRAWS or what.name in rank_names.OWN:
        note = rank_names.OWN.get(what.name, "draw")
        return (Origin(kind=Kind.LOCAL, text=values.text(node, at.scope), note=note),)
    if full in {"os.getenv", "os.environ.get", "environ.get", "getenv", "os.environ.setdefault"} or (
        last in {"get", "pop"} and isinstance(node.func, ast.Attribute) and is_environment(values, node.func.value, at)
    ):
        return _from_environment(values, node, at)
    return of_package(values, node, what, at)


def _from_environment(values: Values, node: ast.Call, at: At) -> Iterable[Origin]:
    variable = known_literal(values, node.args[0], at) if node.args else None
    if variable is not None and isinstance(variable.value, str):
        yield from environment(variable.value)
        if variable.value not in rank_names.ENVIRONMENT:
            yield Origin(kind=Kind.UNKNOWN, text=f"${variable.value}")
    for default in node.args[1:2]:
        yield from values.of(default, at)


def _from_program(values: Values, node: ast.Call, what: Meaning, at: At) -> Iterable[Origin]:
    target = what.target
    assert target is not None
    if target.is_class:
        values_made = values.where(node, at.scope)
        if what.does in {"sampler", "loader", "wrap-ddp"}:
            made = _made(values, node, what, at)
            if made is not None:
                return made
        name = f"{target.file}::{target.name}"
        kind = Kind.INSTANCE
        if (chosen := _member_by_rank(values, node, target, at)) is not None:
            return (chosen,)
        if values.project.is_a(target, "Module", "ModuleList", "Sequential", "PreTrainedModel", "LightningModule"):
            kind = Kind.MODEL
        elif values.project.is_a(target, "Dataset", "IterableDataset"):
            kind = Kind.DATASET
        elif "__iter__" in target.functions and cuts_by_rank(values, target):
            kind = Kind.LOADER
        return (Origin(kind=kind, text=target.name, made=values_made, note=name),)
    context, single = values.entered_by(target, node, at), _object_of(values, node, target, at)
    if context is not None and (by_context := returned(values, target, context, single)):
        return by_context
    if by_call := joined(origin for found in with_literals(values, node, target) for origin in found):
        return by_call
    argument = None if makes_equal(target.name) or makes_collective(target) else itself(node, target)
    if argument is not None:
        return values.of(argument, at)
    found = returned(values, target, None, single)
    of_some = tuple(one for one in found if one.kind is Kind.SOME_RANKS)
    shared = Origin(kind=Kind.SHARED, text=f"{target.name}()")
    if makes_equal(target.name) and makes_collective(target):  # with one process it gives back what it got: shared, too
        return (shared, *of_some)
    if len(found) > len(of_some):
        return found
    if target.generator:
        return of_turns(values, target)
    if makes_equal(target.name) or makes_collective(target):
        return (shared, *of_some)
    if target.returns:
        given = given_back(node, target, values.functions.names_returned(target))
        return (*carried(values, node, at, keep=frozenset({Kind.LOCAL}), only=given), *of_some)
    return ()


def _member_by_rank(values: Values, node: ast.Call, cls: Scope, at: At) -> Origin | None:
    """The rank by which a member of an enumeration is chosen: `Stage(rank % 2)`."""
    if len(node.args) != 1 or not values.project.is_a(cls, "Enum", "IntEnum", "StrEnum"):
        return None
    return next(
        (replace(one, kind=Kind.RANK, note="") for one in values.of(node.args[0], at) if is_certain_rank(one)), None
    )


def _object_of(values: Values, node: ast.Call, target: Scope, at: At) -> SingleObject | None:
    """The object whose method is called; None of other functions, and where it may be one of several."""
    if target.of_class is None:
        return None
    owner = node.func.value if isinstance(node.func, ast.Attribute) and target.name != "__call__" else node.func
    if dotted(owner) in {"self", "cls"}:
        return values.single_in(at.scope)
    return values.objects.called(values.of(owner, at), target)


def cuts_by_rank(values: Values, cls: Scope) -> bool:
    """Whether a class takes the rank's part of a list in one of its methods."""
    return any(
        origin.kind in RANK_KINDS and origin.note != "uncertain"
        for method in cls.functions.values()
        for cut in method.cuts
        for part in cut.parts
        for origin in values.of(part, At(method, cut.order, cut.block))
    )


def _made(values: Values, node: ast.Call, what: Meaning, at: At) -> Iterable[Origin] | None:
    """The object that a known call makes, or None where it makes none."""
    if what.does in {"to", "cuda", "train", "eval"} and isinstance(node.func, ast.Attribute):
        return _same(values, node, at)
    where = values.where(node, at.scope)
    name = dotted(node.func)
    if what.does == "lightning-trainer" and _of_one_device(node):
        return (Origin(kind=Kind.OBJECT, text=name, made=where, note="one device"),)
    if what.does == "own-metric" and any(one.arg in _TELLS_THE_PROCESS for one in node.keywords):
        return None
    if what.does == "generator":
        return None if _is_seeded(node) else (Origin(kind=Kind.OBJECT, text=name, made=where, note="generator"),)
    if what.does in _MAKES:
        own = _MAKES[what.does] is Kind.OBJECT or what.does == "batch-norm"
        note = what.does if own else "fsdp" if what.does == "wrap-fsdp" else ""
        return (Origin(kind=_MAKES[what.does], text=name, made=where, note=note),)
    if what.does == "subset" and len(node.args) > 1:
        return _subset(values.of(node.args[1], at), name, where) or subset(values, node, at) or None
    if what.does == "sync-batch-norm" and node.args:
        model = tuple(
            replace(one, note="batch-norm") if one.kind is Kind.MODEL and not one.note else one
            for one in values.of(node.args[0], at)
        )
        return model or (Origin(kind=Kind.MODEL, text=name, made=where, note="batch-norm"),)
    if what.does == "forward":
        origin = Origin(kind=Kind.LOCAL, text=values.text(node, at.scope), made=where, note="forward")
        return (origin, *carried(values, node, at, keep=frozenset({Kind.LOCAL})))
    if what.does == "scale" and node.args:
        return values.of(node.args[0], at) or None
    if what.does == "split" and what.name.rpartition(".")[2] in _DRAWS_AN_ORDER:
        return (Origin(kind=Kind.OBJECT, text=name, made=where, note="drawn"),)
    if what.does == "split" and what.name.endswith(".random_split"):
        return divided(values, node, at) or None
    if what.does == "prepare-data" and not is_streamed(node):
        return (Origin(kind=Kind.DATASET, text=name, made=where),)
    if what.does == "device":
        return [origin for argument in node.args for origin in values.of(argument, at)]
    if what.does == "prepare":
        return _prepared(values, node, at)
    if what.does == "unwrap":
        given = values.of(node.args[0], at) if node.args else ()
        return tuple(replace(one, kind=Kind.BARE) if one.kind is Kind.WRAPPED else one for one in given)
    if what.does in {"collective", "collective-run"}:
        return (Origin(kind=Kind.SHARED, text=values.text(node, at.scope)),)
    return None


def _subset(indices: Origins, name: str, where: str) -> Origins | None:
    """A `Subset` where its indices are the rank's own."""
    own = any(is_certain_rank(one) or one.note in {"part", "even"} for one in indices)
    return (Origin(kind=Kind.DATASET, text=name, made=where, note="part"),) if own else None


def _of_one_device(node: ast.Call) -> bool:
    """Whether a Trainer of Lightning is told to use one device: `devices=1`, `devices="1"`, `devices=[0]`."""
    asked = next((one.value for one in node.keywords if one.arg == "devices"), None)
    if isinstance(asked, ast.List | ast.Tuple):
        return len(asked.elts) == 1
    return isinstance(asked, ast.Constant) and str(asked.value) == "1"


def _is_seeded(node: ast.Call) -> bool:
    """Whether a generator is given a seed."""
    given = [*node.args, *(one.value for one in node.keywords)]
    return any(not (isinstance(one, ast.Constant) and one.value is None) for one in given)


def _prepared(values: Values, node: ast.Call, at: At) -> Origins:
    return joined(_by_framework(origin) for argument in node.args for origin in values.of(argument, at))


def _is_called_a_model(node: ast.expr) -> bool:
    last = dotted(node).rpartition(".")[2].lower()
    return "model" in last or last in {"net", "network", "unet"}


def _by_framework(origin: Origin) -> Origin:
    """What `prepare` or `setup` of a framework makes of an object: loaders give each rank its part, models are wrapped."""
    if origin.kind is Kind.MODEL:
        return replace(origin, kind=Kind.WRAPPED, note="prepared")
    return replace(origin, note="prepared") if origin.kind is Kind.LOADER else origin


def _same(values: Values, node: ast.Call, at: At) -> Origins:
    assert isinstance(node.func, ast.Attribute)
    return tuple(
        replace(origin, kind=Kind.OBJECT, note="moved") if origin.kind is Kind.CPU_TENSOR else origin
        for origin in values.of(node.func.value, at)
    )


def returned_part(values: Values, node: ast.Call, index: tuple[int, ...], at: At) -> Origins | None:
    """What `a, b = f()` gives to the target at `index`; None where it is not known."""
    what = values.meaning(node, at)
    first = index[0]
    if what.does == "deepspeed" and first == 0:
        where = values.where(node, at.scope)
        engine = Origin(kind=Kind.OBJECT, text=dotted(node.func), made=where, note="deepspeed")
        return (engine, replace(engine, kind=Kind.WRAPPED))
    if what.does == "prepare" and 0 <= first < len(node.args):
        found = values.of(node.args[first], at)
        if not found and _is_called_a_model(node.args[first]):
            made = values.where(node, at.scope)
            return (Origin(kind=Kind.WRAPPED, text=dotted(node.args[first]), made=made, note="prepared"),)
        return tuple(_by_framework(origin) for origin in found)
    if what.does == "split" and (parts := divided(values, node, at)):
        return parts
    if what.target is None and len(index) == 1 and (options := parsed(values, node, first, at)):
        return options
    if what.target is None:
        pair = rank_names.RANK_AND_SIZE.get(what.name.rpartition(".")[2], ())
        text = f"{dotted(node.func)}()"
        return (Origin(kind=pair[first], text=text),) if 0 <= first < len(pair) and len(index) == 1 else None
    if what.target.is_class:
        return None
    target = what.target
    context = values.entered_by(target, node, at)
    return values.within(context, lambda: _part_of_tuple(values, target, first))


def _part_of_tuple(values: Values, target: Scope, first: int) -> Origins | None:
    """What a function that returns tuples gives at a position, or one that `with` enters and that yields them; else None."""
    given = target.yields if target.generator else alive(values, target)
    tuples = [(value, order, block) for value, order, block in given if isinstance(value, ast.Tuple)]
    value, order, block = given[0] if len(given) == 1 else (None, 0, None)
    if isinstance(value, ast.Call) and block is not None:  # `return random_split(dataset, lengths)`
        at, key = At(target, order + 1, block), (id(value), f"part {first}")
        find = partial(_part_handed_back, values, value, first, at)
        return values.once(key, values.context_in(target), values.single_in(target), find) or None
    if not tuples or first < 0:
        return None
    return joined(
        origin
        for value, order, block in tuples
        if first < len(value.elts)
        for origin in values.of(value.elts[first], At(target, order + 1, block))
    )


def _part_handed_back(values: Values, call: ast.Call, first: int, at: At) -> Origins:
    """What the call that a function hands back gives at a position."""
    return returned_part(values, call, (first,), at) or ()
