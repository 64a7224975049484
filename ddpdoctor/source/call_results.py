"""What a call gives."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import TYPE_CHECKING

from ddpdoctor.evidence.code_values import RANK_KINDS, Kind, Origin
from ddpdoctor.source import torch_names as names
from ddpdoctor.source.call_meanings import Meaning, canonical, meaning
from ddpdoctor.source.data_sets import concatenated, divided, is_streamed, subset, transformed
from ddpdoctor.source.decided_branches import alive
from ddpdoctor.source.dotted_names import dotted
from ddpdoctor.source.iteration import item_of
from ddpdoctor.source.lengths import is_certain_rank, of_empty_items, of_length, of_range
from ddpdoctor.source.literals import known_literal
from ddpdoctor.source.object_attributes import held_around
from ddpdoctor.source.origins import TAINTS, At, Origins, environment, joined, note_of
from ddpdoctor.source.parameters import given_at, position_of, ways_into
from ddpdoctor.source.passed_through import given_back
from ddpdoctor.source.scopes import Scope
from ddpdoctor.source.single_objects import SingleObject
from ddpdoctor.source.washing import makes_collective
from ddpdoctor.source.written_calls import called, of_lambda, with_literals
from ddpdoctor.source.written_dicts import is_environment, items_of, only_value

if TYPE_CHECKING:
    from ddpdoctor.source.values import Values


_THROUGH = frozenset({"int", "str", "float", "bool", "abs", "round", "max", "min", "list", "tuple", "sum", "len", "repr", "any",
                      "all", "iter", "reversed", "vars", "dict", "print", "isinstance", "zip", "open"})  # fmt: skip
_TYPES = frozenset({"int", "str", "float", "bool"})
_BUILT_OF_PARTS = ("join", "Path", "format", "device", "PurePath")
_SAME_OBJECT = frozenset({"to", "cuda", "cpu", "train", "eval", "half", "float", "double", "bfloat16", "requires_grad_", "npu",
                          "compile", "xpu", "share_memory", "to_empty", "copy", "apply"})  # fmt: skip
_FACTORIES = frozenset({"tensor", "zeros", "ones", "full", "empty", "rand", "randn", "randint", "arange", "as_tensor",
                        "FloatTensor", "LongTensor", "IntTensor", "Tensor", "from_numpy"})  # fmt: skip
_PASSES_ON = frozenset({"tqdm", "enumerate", "track", "islice", "chain", "cycle", "iter", "reversed"})
"""What goes over the same batches as its argument."""
_PARTS_OF_MODELS = frozenset({"modules", "named_modules", "children", "named_children"})
_JOIN_TENSORS = frozenset({"cat", "concat", "concatenate", "stack", "hstack", "vstack"})
_SIZES = frozenset({"dim", "ndimension", "size", "numel", "is_floating_point", "element_size"})
"""Methods of tensors whose answers ranks have alike."""

_MAKES = {
    "wrap-ddp": Kind.WRAPPED, "wrap-fsdp": Kind.WRAPPED, "sampler": Kind.SAMPLER, "loader": Kind.LOADER,
    "accelerator": Kind.OBJECT, "fabric": Kind.OBJECT, "evaluator": Kind.OBJECT, "load": Kind.OBJECT,
    "optimizer": Kind.OBJECT, "plateau": Kind.OBJECT, "scaler": Kind.OBJECT, "zero": Kind.OBJECT,
    "deepspeed": Kind.OBJECT, "metric": Kind.OBJECT,
    "plain-sampler": Kind.OBJECT, "dataset": Kind.DATASET, "batch-norm": Kind.MODEL,
    "state-dict": Kind.OBJECT, "new-group": Kind.OBJECT, "no-sync": Kind.OBJECT, "trainer": Kind.OBJECT,
    "lightning-trainer": Kind.OBJECT, "hf-trainer": Kind.OBJECT, "start-context": Kind.OBJECT,
    "engine": Kind.OBJECT, "job-environment": Kind.OBJECT,
}  # fmt: skip
"""What known calls make."""

_NO_MODELS = (
    "Config",
    "Tokenizer",
    "Trainer",
    "TrainingArguments",
    "Callback",
    "DataCollator",
    "Processor",
    "FeatureExtractor",
)
"""Parts of the names of what transformers makes beside models."""


def result(values: Values, node: ast.Call, at: At) -> Iterable[Origin]:
    """What a call gives."""
    found = tuple(_result(values, node, at))
    if id(node) in values.wrapped and not any(one.kind in {Kind.MODEL, Kind.WRAPPED, Kind.BARE} for one in found):
        name = meaning(values, node, at).name
        return (Origin(kind=Kind.MODEL, text=name, made=values.where(node, at.scope)),)
    return found


def _result(values: Values, node: ast.Call, at: At) -> Iterable[Origin]:
    what = meaning(values, node, at)
    last = what.name.rpartition(".")[2]
    if what.target is not None:
        return _from_program(values, node, what, at)
    if what.does:
        made = _made(values, node, what, at)
        if made is not None:
            return made
    if (of_this := of_lambda(values, node, at)) is not None:
        return of_this
    full = canonical(what.name)
    if full in names.CALLED:
        note = (
            "uncertain"
            if last == "get_rank" and (node.args or any(one.arg == "group" for one in node.keywords))
            else ""
        )
        kind = Kind.RANK if note else names.CALLED[full]
        return (Origin(kind=kind, text=f"{dotted(node.func)}()", note=note or names.OWN.get(full, "")),)
    if last in _SIZES and isinstance(node.func, ast.Attribute):
        return of_length(values.of(node.func.value, at))
    if full in names.DRAWS or what.name in names.OWN:
        note = names.OWN.get(what.name, "draw")
        return (Origin(kind=Kind.LOCAL, text=values.text(node, at.scope), note=note),)
    if full in {"os.getenv", "os.environ.get", "environ.get", "getenv", "os.environ.setdefault"} or (
        last in {"get", "pop"} and isinstance(node.func, ast.Attribute) and is_environment(values, node.func.value, at)
    ):
        return _from_environment(values, node, at)
    return _from_elsewhere(values, node, what, last, at)


def _from_environment(values: Values, node: ast.Call, at: At) -> Iterable[Origin]:
    variable = known_literal(values, node.args[0], at) if node.args else None
    if variable is not None and isinstance(variable.value, str):
        yield from environment(variable.value)
        if variable.value not in names.ENVIRONMENT:
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
    if context is not None and (by_context := values.returned(target, context, single)):
        return by_context
    if by_call := joined(origin for found in with_literals(values, node, target) for origin in found):
        return by_call
    last = target.name
    if names.washes(last) and makes_collective(
        target
    ):  # with one process it gives back what it got: that is shared, too
        return (Origin(kind=Kind.SHARED, text=f"{last}()"),)
    found = values.returned(target, None, single)
    if found:
        return found
    if target.generator:
        return _of_its_part(values, target)
    if names.washes(last) or makes_collective(target):
        return (Origin(kind=Kind.SHARED, text=f"{last}()"),)
    if target.returns:
        return _tainted(values, node, at, keep=frozenset({Kind.LOCAL}), only=given_back(values, node, target))
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


def _of_its_part(values: Values, generator: Scope) -> Iterable[Origin]:
    """That a generator yields as often as the rank's part of a list is long, where it goes over one."""
    for loop in generator.loops:
        if isinstance(loop.node, ast.While) or not any(block.inside(loop.body) for block in generator.yielding):
            continue
        for origin in values.of(loop.node.iter, At(generator, loop.order, loop.block)):
            if origin.note == "part":
                yield origin


def _made(values: Values, node: ast.Call, what: Meaning, at: At) -> Iterable[Origin] | None:
    """The object that a known call makes, or None where it makes none."""
    where = values.where(node, at.scope)
    name = dotted(node.func)
    if what.does == "lightning-trainer" and _of_one_device(node):
        return (Origin(kind=Kind.OBJECT, text=name, made=where, note="one device"),)
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
        return (origin, *_tainted(values, node, at, keep=frozenset({Kind.LOCAL})))
    if what.does == "scale" and node.args:
        return values.of(node.args[0], at) or None
    if what.does in {"to", "cuda", "train", "eval"} and isinstance(node.func, ast.Attribute):
        return _same(values, node, at)
    if what.does == "split" and what.name.rpartition(".")[2] in {"permutation", "randperm", "shuffle"}:
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


def _copied(values: Values, node: ast.Call, at: At) -> Iterator[Origin]:
    """A deep copy: of a model, wrapped or not, another model, which no wrapper holds."""
    for origin in values.of(node.args[0], at):
        if origin.kind in {Kind.MODEL, Kind.WRAPPED, Kind.BARE}:
            note = origin.note if origin.kind is Kind.MODEL else ""
            yield replace(origin, kind=Kind.MODEL, made=values.where(node, at.scope), note=note)
        else:
            yield origin


def _from_elsewhere(values: Values, node: ast.Call, what: Meaning, last: str, at: At) -> Iterable[Origin]:
    if last in names.RANK_CALLS and not node.args:
        return (Origin(kind=names.RANK_CALLS[last], text=f"{dotted(node.func) or last}()", note=note_of(last)),)
    if last == "sorted":
        return [origin for origin in _through(values, node, at) if origin.kind is not Kind.UNORDERED]
    if last in {"set", "frozenset"}:
        return (Origin(kind=Kind.UNORDERED, text=values.text(node, at.scope)),)
    if last == "range":
        return of_range(values, node, at)
    if last == "isinstance":  # other ranks may have a dummy in its place
        held = (one for one in _through(values, node, at) if one.kind is Kind.SOME_RANKS)
        return [replace(one, kind=Kind.RANK, note="uncertain") for one in held]
    if last == "getattr" and _names_the_rank(values, node, at):
        return (Origin(kind=Kind.RANK, text=values.text(node, at.scope), note="uncertain"),)
    if last in {"Thread", "hasattr", "type"}:
        return ()
    if last == "field" and what.name.startswith("dataclasses."):
        return _of_field(values, node, at)
    if last in _PASSES_ON:
        loaders = [origin for origin in _through(values, node, at) if origin.kind is Kind.LOADER]
        if what.does == "progress":
            shown = Origin(kind=Kind.OBJECT, text=last, made=values.where(node, at.scope), note="progress")
            return [*loaders, shown]
        parameters = [origin for origin in _through(values, node, at) if origin.note == "parameters"]
        if loaders or parameters:
            return loaders or parameters
    if last == "next" and node.args:
        return item_of(values, node.args[0], (), at)
    if last == "sample" and {one.arg for one in node.keywords} & {"frac"}:
        return (Origin(kind=Kind.OBJECT, text=dotted(node.func), made=values.where(node, at.scope), note="drawn"),)
    if last in {"iterdir", "rglob", "glob"} and isinstance(node.func, ast.Attribute):
        return (Origin(kind=Kind.UNORDERED, text=values.text(node, at.scope)),)
    if (
        last in _FACTORIES
        and what.name.startswith("torch.")
        and ".cuda." not in what.name
        and not any(one.arg == "device" for one in node.keywords)
    ):
        found = [origin for origin in _through(values, node, at) if origin.kind is Kind.LOCAL]
        seeded_apart = any(one.arg in {"generator", None} for one in node.keywords)
        note = "generator" if seeded_apart else ""
        where = values.where(node, at.scope)
        return (*found, Origin(kind=Kind.CPU_TENSOR, text=values.text(node, at.scope), made=where, note=note))
    if "." not in what.name and (last in _THROUGH or _converts(values, what.name, at.scope)):
        if last in {"any", "all"} and node.args and isinstance(node.args[0], ast.GeneratorExp | ast.ListComp):
            return [*_through(values, node, at), *of_empty_items(values, node.args[0].elt, at)]
        if last == "len":
            return [*of_length(_through(values, node, at)), *_length_of_its_part(values, node, at)]
        return _through(values, node, at)
    if _washes(what.name, last):
        return (Origin(kind=Kind.SHARED, text=values.text(node, at.scope)),)
    if what.name.startswith(".") and isinstance(node.func, ast.Attribute):
        return _of_method(values, node, last, at)
    if last in _BUILT_OF_PARTS:
        return _through(values, node, at)
    if last in _JOIN_TENSORS and what.name.startswith("torch."):
        return _through(values, node, at)
    if last == "ConcatDataset" and (joint := concatenated(values, node, at)):
        return joint
    if last == "BatchSampler" and node.args and what.name.startswith("torch."):
        given = values.of(node.args[0], at)
        return tuple(one for one in given if one.kind is Kind.SAMPLER or one.note == "plain-sampler")
    if last in {"compile", "DataParallel"} and node.args and what.name.startswith("torch"):
        return values.of(node.args[0], at)
    if what.name in {"copy.deepcopy", "deepcopy"} and node.args:
        return _copied(values, node, at)
    if what.name.startswith(("torchvision.models.", "timm.create_model", "transformers.")) and not any(
        word in what.name for word in _NO_MODELS
    ):
        asked = known_literal(values, node.args[0], at) if what.name.startswith("timm.") and node.args else None
        name = str(asked.value).removeprefix("tf_") if asked is not None else what.name
        return (Origin(kind=Kind.MODEL, text=name, made=values.where(node, at.scope)),)
    if what.name.startswith("torch.nn.") and last[:1].isupper() and not last.endswith("Loss"):
        inner = [origin for origin in _through(values, node, at) if origin.note == "batch-norm"]
        note = "batch-norm" if inner else ""
        return (Origin(kind=Kind.MODEL, text=what.name, made=values.where(node, at.scope), note=note),)
    carried = _tainted(values, node, at, keep=TAINTS - {Kind.SHARED, Kind.CPU_TENSOR, Kind.UNORDERED})
    if last.endswith("Loader") and not any(one.arg == "drop_last" for one in node.keywords):
        return carried
    if last[:1].isupper():  # how often an object of a library turns is its own choice: `WebDataset(mine)`
        return [replace(one, note="own") if one.note == "part" else one for one in carried]
    return carried


def _length_of_its_part(values: Values, node: ast.Call, at: At) -> Iterator[Origin]:
    """How long a data set of the program is that was made of the part of a list which the rank took: `len(Clips(mine))`."""
    if not any(one.kind is Kind.DATASET and one.note for one in _through(values, node, at)):
        return
    asked = node.args[0]
    made = only_value(values, asked, at) if isinstance(asked, ast.Name | ast.Attribute) else None
    for argument in made[0].args if made is not None and isinstance(made[0], ast.Call) else ():
        parts = (one for one in values.of(argument, made[1]) if one.note == "part") if made is not None else ()
        yield from (replace(one, note="length") for one in parts)


def _names_the_rank(values: Values, node: ast.Call, at: At) -> bool:
    """Whether `getattr(args, "should_save", True)` asks for an attribute that holds the rank, or a test of it."""
    key = known_literal(values, node.args[1], at) if len(node.args) > 1 else None
    return key is not None and isinstance(key.value, str) and key.value in {*names.RANK_NAMES, *names.OF_WRITERS}


def _converts(values: Values, name: str, scope: Scope) -> bool:
    """Whether a parameter is a type of numbers or texts by each call: `def env(name, kind=int): return kind(...)`."""
    if name not in scope.parameters or name in scope.definitions:
        return False
    given = [given_at(site, name, position_of(scope, name)) for site in ways_into(values, scope)[0]]
    types = [one if one is not None else scope.defaults.get(name) for one in given]
    return bool(types) and all(isinstance(one, ast.Name) and one.id in _TYPES for one in types)


def _washes(full: str, last: str) -> bool:
    return full not in {"torch.gather", ".gather"} and names.washes(last)


def _of_field(values: Values, node: ast.Call, at: At) -> Iterable[Origin]:
    """What a field of a dataclass holds where its object is made without it."""
    for one in node.keywords:
        factory = one.value if one.arg == "default_factory" else None
        made = factory.body if isinstance(factory, ast.Lambda) else None
        if isinstance(factory, ast.Name | ast.Attribute):
            made = called(values, factory)
        default = made if made is not None else one.value if one.arg == "default" else None
        if default is not None:
            yield from values.of(default, at)


def _through(values: Values, node: ast.Call, at: At) -> list[Origin]:
    return [origin for argument in node.args for origin in values.of(argument, at)]


def _tainted(
    values: Values, node: ast.Call, at: At, *, keep: frozenset[Kind], only: Iterable[ast.expr] | None = None
) -> Origins:
    """What an unknown function gives: it may carry on what its arguments, or `only` some of these, depend on."""
    found: list[Origin] = []
    for argument in (*node.args, *(keyword.value for keyword in node.keywords)) if only is None else only:
        for origin in values.of(argument, at):
            if origin.kind in keep:
                unsure = origin.kind in RANK_KINDS
                found.append(replace(origin, kind=Kind.RANK, note="uncertain") if unsure else origin)
    return joined(found)


def _of_method(values: Values, node: ast.Call, last: str, at: At) -> Origins:
    assert isinstance(node.func, ast.Attribute)
    if last in {"get", "pop"} and (written := _written_under(values, node, node.func.value, at)) is not None:
        return written
    receiver = values.of(node.func.value, at)
    if (rows := transformed(values, node, last, receiver, at)) is not None:
        return rows
    if last in _SAME_OBJECT and any(origin.kind in {Kind.MODEL, Kind.WRAPPED, Kind.BARE} for origin in receiver):
        return receiver
    if last in _PARTS_OF_MODELS:
        return tuple(_inside(receiver))
    if last in {"parameters", "named_parameters"}:
        return parameters_of(values, node.func.value, at)
    if last == "manual_seed":  # a generator of its own, which draws as its seed says
        return tuple(
            replace(one, kind=Kind.RANK, note="") for one in _through(values, node, at) if is_certain_rank(one)
        )
    if last == "format":
        return _formatted(receiver, [values.of(one, at) for one in node.args]) or joined(
            [*receiver, *_through(values, node, at)]
        )
    if last in {"get", "pop"} and any(origin.kind is Kind.OBJECT for origin in receiver):
        return receiver
    if last in {"tolist", "numpy", "reset_index"} and any(origin.note == "drawn" for origin in receiver):
        return receiver
    found = [origin for origin in receiver if origin.kind in {Kind.LOCAL, Kind.SHARED, Kind.UNORDERED}]
    if last not in {"to", "cuda", "npu"}:
        found += [origin for origin in receiver if origin.kind is Kind.CPU_TENSOR]
    if last == "cpu" and not node.args:
        found.append(Origin(kind=Kind.CPU_TENSOR, text=values.text(node, at.scope), made=values.where(node, at.scope)))
    if not found:
        found += _tainted(values, node, at, keep=frozenset({Kind.LOCAL}) | RANK_KINDS)
    elif any(origin.note in {"batch", "item"} for origin in found):  # `batch.loss(output)`
        found += [origin for origin in _through(values, node, at) if origin.note == "forward"]
    return joined(found)


def _inside(models: Origins) -> Iterator[Origin]:
    """The modules that models consist of, as `named_modules()` goes over them."""
    for one in models:
        if one.kind in {Kind.MODEL, Kind.WRAPPED, Kind.BARE}:
            yield replace(one, kind=Kind.MODEL if one.kind is Kind.MODEL else Kind.BARE, note="modules")


def _written_under(values: Values, node: ast.Call, owner: ast.expr, at: At) -> Origins | None:
    """What `options.get("rank")` gives of a dict that is written out; None of any other, and of a key that it does not have."""
    key = known_literal(values, node.args[0], at) if node.args else None
    items = items_of(values, owner, at) if key is not None and isinstance(key.value, str) else None
    return (
        values.of(*items[str(key.value)]) if key is not None and items is not None and str(key.value) in items else None
    )


def _formatted(pattern: Origins, parts: list[Origins]) -> Origins:
    """The text that `"...{}".format(...)` gives of constants; empty where one is not known."""
    known = [one[0].text.strip("\"'") for one in parts if len(one) == 1 and one[0].kind is Kind.CONSTANT]
    if len(pattern) != 1 or pattern[0].kind is not Kind.CONSTANT or len(known) != len(parts):
        return ()
    text = pattern[0].text
    if text.count("{}") != len(known):
        return ()
    for each in known:
        text = text.replace("{}", each, 1)
    return (replace(pattern[0], text=text),)


def parameters_of(values: Values, node: ast.expr, at: At) -> Origins:
    """The parameters of a model, or of a part of it such as `model.module.head` and `model.module.net[0]`."""
    return tuple(replace(one, kind=Kind.OBJECT, note="parameters") for one in held_around(values, node, at))


def returned_part(values: Values, node: ast.Call, index: tuple[int, ...], at: At) -> Origins | None:
    """What `a, b = f()` gives to the target at `index`; None where it is not known."""
    what = meaning(values, node, at)
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
    if what.target is None:
        pair = names.RANK_AND_SIZE.get(what.name.rpartition(".")[2], ())
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
    if not tuples or first < 0:
        return None
    return joined(
        origin
        for value, order, block in tuples
        if first < len(value.elts)
        for origin in values.of(value.elts[first], At(target, order + 1, block))
    )
