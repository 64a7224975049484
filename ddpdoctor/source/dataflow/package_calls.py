"""What calls of Python's own functions and of other packages give, of which no source is read."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from dataclasses import replace

from ddpdoctor.evidence.code_values import COPY, RANK_KINDS, Kind, Origin
from ddpdoctor.source.dataflow.callers import position_of, ways_into
from ddpdoctor.source.dataflow.data_sets import concatenated, transformed
from ddpdoctor.source.dataflow.iteration import item_of
from ddpdoctor.source.dataflow.lengths import is_certain_rank, of_empty_items, of_length, of_range
from ddpdoctor.source.dataflow.literals import default_literal, known_literal
from ddpdoctor.source.dataflow.object_attributes import held_around
from ddpdoctor.source.dataflow.origins import TAINTS, At, Meaning, Origins, joined, note_of
from ddpdoctor.source.dataflow.returned_values import returned
from ddpdoctor.source.dataflow.values import Values
from ddpdoctor.source.dataflow.written_calls import called, partial_of
from ddpdoctor.source.dataflow.written_dicts import items_of, only_value
from ddpdoctor.source.names import rank_names
from ddpdoctor.source.names.dotted_names import dotted
from ddpdoctor.source.program.classes import class_named
from ddpdoctor.source.program.index import given_at
from ddpdoctor.source.program.shared_values import makes_equal
from ddpdoctor.source.syntax.scopes import Scope

_THROUGH = frozenset({"int", "str", "float", "bool", "abs", "round", "max", "min", "list", "tuple", "sum", "len", "repr", "any",
                      "all", "iter", "reversed", "vars", "dict", "print", "isinstance", "zip", "open"})  # fmt: skip
_TYPES = frozenset({"int", "str", "float", "bool"})
_BUILT_OF_PARTS = ("join", "Path", "format", "device", "PurePath")
_SAME_OBJECT = frozenset({"to", "cuda", "cpu", "train", "eval", "half", "float", "double", "bfloat16", "requires_grad_", "npu",
                          "compile", "xpu", "share_memory", "to_empty", "copy", "apply"})  # fmt: skip
_FACTORIES = frozenset({"tensor", "zeros", "ones", "full", "empty", "rand", "randn", "randint", "arange", "as_tensor",
                        "FloatTensor", "LongTensor", "IntTensor", "Tensor", "from_numpy"})  # fmt: skip
_PASSES_ON = frozenset({"tqdm", "enumerate", "track", "islice", "chain", "cycle", "iter", "reversed", "filter"})
"""What goes over the same batches as its argument."""
_PARTS_OF_MODELS = frozenset({"modules", "named_modules", "children", "named_children"})
_JOIN_TENSORS = frozenset({"cat", "concat", "concatenate", "stack", "hstack", "vstack"})
_MODEL_PACKAGES = ("torchvision.models.", "timm.create_model", "transformers.")
_MAKE_BY_NAME = {"create_model": 0, "get_model": 0, "load": 1}
"""Functions that make the model of a name, and which of their arguments is the name."""
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


def of_package(values: Values, node: ast.Call, what: Meaning, at: At) -> Iterable[Origin]:
    """What such a call gives: what its name tells, else what its arguments depend on."""
    last = what.name.rpartition(".")[2]
    if (of_rank := _of_ranks(values, node, last, at)) is not None:
        return of_rank
    for known in (_of_lists, _of_loops, _of_new_tensors, _of_builtins):
        if (found := known(values, node, what, last, at)) is not None:
            return found
    if (
        last == "compute"
        and isinstance(node.func, ast.Attribute)
        and (counted := _counted(values, node.func.value, at))
    ):
        return counted
    if makes_equal(last) and what.name not in {"torch.gather", ".gather"}:
        return (Origin(kind=Kind.SHARED, text=values.text(node, at.scope)),)
    if what.name.startswith(".") and isinstance(node.func, ast.Attribute):
        return _of_method(values, node, last, at)
    if last in _BUILT_OF_PARTS or (last in _JOIN_TENSORS and what.name.startswith("torch.")):
        return _through(values, node, at)
    for known in (_of_data, _of_models):
        if (found := known(values, node, what, last, at)) is not None:
            return found
    return _of_unknown(values, node, last, at)


def _counted(values: Values, metric: ast.expr, at: At) -> Origins:
    """What a metric of `evaluate` computes: of what this process gave it, unless that was gathered; nothing of other metrics."""
    found = values.of(metric, at)
    own = any(one.note == "own-metric" for one in found)
    return tuple(one for one in found if one.kind in {Kind.LOCAL, Kind.SHARED}) if own else ()


def _of_ranks(values: Values, node: ast.Call, last: str, at: At) -> Iterable[Origin] | None:
    """Calls that give the rank, by their names, and questions that may ask for it."""
    if last in rank_names.RANK_CALLS and not node.args:
        return (Origin(kind=rank_names.RANK_CALLS[last], text=f"{dotted(node.func) or last}()", note=note_of(last)),)
    if last == "isinstance":  # other ranks may have a dummy in its place
        held = (one for one in _through(values, node, at) if one.kind is Kind.SOME_RANKS)
        return [replace(one, kind=Kind.RANK, note="uncertain") for one in held]
    if last == "getattr" and _names_the_rank(values, node, at):
        return (Origin(kind=Kind.RANK, text=values.text(node, at.scope), note="uncertain"),)
    return () if last in {"Thread", "hasattr", "type"} else None


def _of_lists(values: Values, node: ast.Call, what: Meaning, last: str, at: At) -> Iterable[Origin] | None:
    """Sorted and unsorted collections, listings of folders, ranges, and the defaults of fields."""
    if last == "sorted":
        return [origin for origin in _through(values, node, at) if origin.kind is not Kind.UNORDERED]
    listing = last in {"iterdir", "rglob", "glob"} and isinstance(node.func, ast.Attribute)
    if listing or last in {"set", "frozenset"}:
        return (Origin(kind=Kind.UNORDERED, text=values.text(node, at.scope)),)
    if last == "range":
        return of_range(values, node, at)
    if last == "field" and what.name.startswith("dataclasses."):
        return _of_field(values, node, at)
    if last == "sample" and {one.arg for one in node.keywords} & {"frac"}:
        return (Origin(kind=Kind.OBJECT, text=dotted(node.func), made=values.where(node, at.scope), note="drawn"),)
    return None


def _of_loops(values: Values, node: ast.Call, what: Meaning, last: str, at: At) -> Iterable[Origin] | None:
    """What goes over the same batches as its argument, and the next one of these."""
    if last in _PASSES_ON:
        given = _through(values, node, at)
        loaders = [origin for origin in given if origin.kind is Kind.LOADER]
        if what.does == "progress":
            shown = Origin(kind=Kind.OBJECT, text=last, made=values.where(node, at.scope), note="progress")
            return [*loaders, shown]
        if passed := loaders or [origin for origin in given if origin.note == "parameters"]:
            return [*passed, *(origin for origin in given if origin.note == "progress")]
    return item_of(values, node.args[0], (), at) if last == "next" and node.args else None


def _of_new_tensors(values: Values, node: ast.Call, what: Meaning, last: str, at: At) -> Iterable[Origin] | None:
    """Tensors that are made on the CPU."""
    if last not in _FACTORIES or not what.name.startswith("torch.") or ".cuda." in what.name:
        return None
    if any(one.arg == "device" for one in node.keywords):
        return None
    found = [origin for origin in _through(values, node, at) if origin.kind is Kind.LOCAL]
    note = "generator" if any(one.arg in {"generator", None} for one in node.keywords) else ""
    where = values.where(node, at.scope)
    return (*found, Origin(kind=Kind.CPU_TENSOR, text=values.text(node, at.scope), made=where, note=note))


def _of_builtins(values: Values, node: ast.Call, what: Meaning, last: str, at: At) -> Iterable[Origin] | None:
    """Built-in functions that give what depends on their arguments, or on those of the partial that is called."""
    if "." in what.name or not (last in _THROUGH or _converts(values, what.name, at.scope)):
        return None
    partial = partial_of(values, node, at) if not node.args else None
    given = _through(values, *(partial or (node, at)))
    if last in {"any", "all"} and node.args and isinstance(node.args[0], ast.GeneratorExp | ast.ListComp):
        return [*given, *of_empty_items(values, node.args[0].elt, at)]
    if last != "len":
        return given
    return [*of_length(given), *_length_of_its_part(values, node, at), *_length_of_object(values, node, given, at)]


def _of_data(values: Values, node: ast.Call, what: Meaning, last: str, at: At) -> Iterable[Origin] | None:
    """Data sets and samplers that are made of others."""
    if last == "ConcatDataset":
        return concatenated(values, node, at) or None
    if last == "BatchSampler" and node.args and what.name.startswith("torch."):
        given = values.of(node.args[0], at)
        return tuple(one for one in given if one.kind is Kind.SAMPLER or one.note == "plain-sampler")
    return None


def _of_models(values: Values, node: ast.Call, what: Meaning, last: str, at: At) -> Iterable[Origin] | None:
    """Models and layers, and copies and compiled forms of them."""
    if last in {"compile", "DataParallel"} and node.args and what.name.startswith("torch"):
        return values.of(node.args[0], at)
    if what.name in {"copy.deepcopy", "deepcopy"} and node.args:
        return _copied(values, node, at)
    match node:
        case ast.Call(func=ast.Name(id="getattr"), args=[model, ast.Constant(value="module"), _]):
            held = values.of(model, at)
            return [replace(one, kind=Kind.BARE) if one.kind is Kind.WRAPPED else one for one in held]
    where = values.where(node, at.scope)
    of_package = what.name == "torch.hub.load" or what.name.startswith(_MODEL_PACKAGES)
    if of_package and not any(word in what.name for word in _NO_MODELS):
        name_at = _MAKE_BY_NAME.get(last, len(node.args))
        asked = default_literal(values, node.args[name_at], at) if name_at < len(node.args) else None
        name = str(asked.value).removeprefix("tf_") if asked is not None else what.name
        return (Origin(kind=Kind.MODEL, text=name, made=where),)
    if what.name.startswith("torch.nn.") and last[:1].isupper() and not last.endswith("Loss"):
        inner = any(origin.note == "batch-norm" for origin in _through(values, node, at))
        return (Origin(kind=Kind.MODEL, text=what.name, made=where, note="batch-norm" if inner else ""),)
    return None


def _of_unknown(values: Values, node: ast.Call, last: str, at: At) -> Iterable[Origin]:
    found = carried(values, node, at, keep=TAINTS - {Kind.SHARED, Kind.CPU_TENSOR, Kind.UNORDERED})
    if last == "partial" and node.args:
        return [*(one for one in values.of(node.args[0], at) if one.kind is Kind.FUNCTION), *found]
    if last.endswith("Loader") and not any(one.arg == "drop_last" for one in node.keywords):
        return found
    if last[:1].isupper():  # how often an object of a library turns is its own choice: `WebDataset(mine)`
        return [replace(one, note="own") if one.note == "part" else one for one in found]
    return found


def _copied(values: Values, node: ast.Call, at: At) -> Iterator[Origin]:
    """A deep copy: of a model, wrapped or not, another model, which no wrapper holds."""
    for origin in values.of(node.args[0], at):
        if origin.kind in {Kind.MODEL, Kind.WRAPPED, Kind.BARE}:
            note = origin.note if origin.kind is Kind.MODEL else COPY
            yield replace(origin, kind=Kind.MODEL, made=values.where(node, at.scope), note=note)
        else:
            yield origin


def _length_of_its_part(values: Values, node: ast.Call, at: At) -> Iterator[Origin]:
    """How long a data set of the program is that was made of the part of a list which the rank took: `len(Clips(mine))`."""
    if not any(one.kind is Kind.DATASET and one.note for one in _through(values, node, at)):
        return
    asked = node.args[0]
    made = only_value(values, asked, at) if isinstance(asked, ast.Name | ast.Attribute) else None
    for argument in made[0].args if made is not None and isinstance(made[0], ast.Call) else ():
        parts = (one for one in values.of(argument, made[1]) if one.note == "part") if made is not None else ()
        yield from (replace(one, note="length") for one in parts)


def _length_of_object(values: Values, node: ast.Call, given: list[Origin], at: At) -> Iterator[Origin]:
    """What `__len__` of an object of the program gives, where it is as long as this rank's own lists."""
    asked = node.args[0] if node.args else None
    own = at.scope.of_class if isinstance(asked, ast.Name) and asked.id == "self" else None
    objects = [(own, values.single_in(at.scope))] if own is not None else []
    for one in given:
        cls = class_named(values.project, one.note) if one.kind is Kind.INSTANCE else None
        objects += [(cls, values.objects.find(cls, one.made))] if cls is not None else []
    for cls, single in objects:
        if (method := values.project.method(cls, "__len__")) is not None:
            yield from (one for one in returned(values, method, None, single) if one.note == "length")


def _names_the_rank(values: Values, node: ast.Call, at: At) -> bool:
    """Whether `getattr(args, "should_save", True)` asks for an attribute that holds the rank, or a test of it."""
    key = known_literal(values, node.args[1], at) if len(node.args) > 1 else None
    return (
        key is not None and isinstance(key.value, str) and key.value in {*rank_names.RANK_NAMES, *rank_names.OF_WRITERS}
    )


def _converts(values: Values, name: str, scope: Scope) -> bool:
    """Whether a parameter is a type of numbers or texts by each call: `def env(name, kind=int): return kind(...)`."""
    if name not in scope.parameters or name in scope.definitions:
        return False
    given = [given_at(site, name, position_of(scope, name)) for site in ways_into(values, scope)[0]]
    types = [one if one is not None else scope.defaults.get(name) for one in given]
    return bool(types) and all(isinstance(one, ast.Name) and one.id in _TYPES for one in types)


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


def carried(
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
        return _parameters_of(values, node.func.value, at)
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
    if last not in {"to", "cuda", "npu", "item", "tolist"}:
        found += [origin for origin in receiver if origin.kind is Kind.CPU_TENSOR]
    if last == "cpu" and not node.args:
        found.append(Origin(kind=Kind.CPU_TENSOR, text=values.text(node, at.scope), made=values.where(node, at.scope)))
    if not found:
        found += carried(values, node, at, keep=frozenset({Kind.LOCAL}) | RANK_KINDS)
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


def _parameters_of(values: Values, node: ast.expr, at: At) -> Origins:
    """The parameters of a model, or of a part of it such as `model.module.head` and `model.module.net[0]`."""
    return tuple(replace(one, kind=Kind.OBJECT, note="parameters") for one in held_around(values, node, at))
