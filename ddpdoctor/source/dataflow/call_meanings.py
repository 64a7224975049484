"""What a call is for."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from dataclasses import replace
from functools import lru_cache

from ddpdoctor.evidence.code_values import Kind, Origin
from ddpdoctor.source.dataflow.literals import default_literal
from ddpdoctor.source.dataflow.object_attributes import attribute_of
from ddpdoctor.source.dataflow.origins import At, Meaning, Origins
from ddpdoctor.source.dataflow.own_samplers import knows_no_rank, needs_the_epoch
from ddpdoctor.source.dataflow.values import Values
from ddpdoctor.source.dataflow.weights import weights_of, written_into
from ddpdoctor.source.dataflow.written_calls import called_by_default, called_for, method_by_text
from ddpdoctor.source.dataflow.written_dicts import only_value
from ddpdoctor.source.names import framework_names
from ddpdoctor.source.names import torch_names as names
from ddpdoctor.source.names.dotted_names import dotted, is_gradient
from ddpdoctor.source.program.classes import class_meant, class_named, is_trainer
from ddpdoctor.source.program.registries import LookUp, look_up
from ddpdoctor.source.syntax.scopes import Scope

SHARDS = (frozenset({"shard_id", "num_shards"}), frozenset({"index", "num_shards"}))
"""The keywords by which DALI and `datasets` are told the rank's part of the data."""
_OF_SEVERAL_RANKS = frozenset({"launcher", "strategy"})
"""The keywords by which a runner of MMEngine makes the process group."""
_OF_LAUNCHERS = {"accelerator": framework_names.OF_ACCELERATE, "fabric": framework_names.OF_FABRIC}
"""The methods of the objects of Accelerate and of Lightning Fabric that all ranks meet in, by the note of the object."""
_FORWARDS = frozenset({"forward", "module"})
_TRAINED = frozenset({"forward", "loss", "compute_loss", "training_step"})
_DATA = frozenset({"batch", "item", "forward"})
"""Notes of what a loader, or another forward, gives to a forward."""


def found_meaning(values: Values, node: ast.Call, at: At) -> tuple[Meaning, bool]:
    """What a call is for, and whether that is all: it met no question that is still open."""
    found, whole = values.answers.watch(_meaning, values, node, at)
    if node.keywords:
        found = _by_keywords(found, node, at)
    if not found.does:
        if canonical(found.name) in names.COMMANDS and _fetches(node):
            found = replace(found, does="download")
        elif (
            id(node) in values.code.drawn_from and found.target is None and found.name.rpartition(".")[2][:1].isupper()
        ):
            found = replace(found, does="" if found.name.startswith("torch.") else "dataset")
        elif found.target is not None and not found.target.is_class and values.functions.shows(found.target):
            found = replace(found, does="log")
        elif (into := written_into(found, node)) is not None and weights_of(values, into, at):
            found = replace(found, does="write-weights")
    return found, whole


def _by_keywords(found: Meaning, node: ast.Call, at: At) -> Meaning:
    """What a call is for where its keywords say so."""
    given = {one.arg for one in node.keywords}
    if given & _OF_SEVERAL_RANKS and _imported_from(at.scope, dotted(node.func), "mmengine."):
        return replace(found, does="init")
    if found.name == ".Process" and "target" in given:  # of `get_context("spawn")`
        return replace(found, does="process")
    return replace(found, does="shard") if not found.does and any(given >= each for each in SHARDS) else found


def _fetches(node: ast.Call) -> bool:
    """Whether the command that is started fetches or unpacks files: `subprocess.run(["wget", url])`, `os.system("unzip ...")`."""
    given = node.args[0] if node.args else None
    parts = (
        given.elts
        if isinstance(given, ast.List | ast.Tuple)
        else given.values
        if isinstance(given, ast.JoinedStr)
        else [given]
    )
    first = parts[0] if parts else None
    words = first.value.split() if isinstance(first, ast.Constant) and isinstance(first.value, str) else []
    command = words[0].rpartition("/")[2] if words else ""
    return command in names.FETCHERS and (command != "tar" or "x" in _word(parts, words, 1))


def _word(parts: Sequence[ast.expr | None], words: list[str], position: int) -> str:
    """A word of a command that is written as one text, or as a list of words; empty where it is not known."""
    if len(words) > position:
        return words[position]
    part = parts[position] if len(parts) > position else None
    return part.value if isinstance(part, ast.Constant) and isinstance(part.value, str) else ""


def _meaning(values: Values, node: ast.Call, at: At) -> Meaning:
    func = node.func
    name = dotted(func)
    if (asked := look_up(node)) is not None and (found := _looked_up(values, asked, at)) is not None:
        return Meaning(found.name, found, _of_class(values, found))
    if type(func) is not ast.Attribute and (named := _by_text(values, func, at)) and _of_name(named).does:
        return _of_name(named)
    if name:
        first = name.partition(".")[0]
        if name == "cls" and at.scope.of_class is not None:
            return Meaning(at.scope.of_class.name, at.scope.of_class, _of_class(values, at.scope.of_class))
        if first in {"self", "cls"}:
            method = values.index.target(at.scope, name) if name != "self" else _forward(values, at.scope)
            if method is not None:
                return Meaning(name, method)
            if name.partition(".")[2] in framework_names.OF_LIGHTNING and _is_lightning(values, at.scope):
                return Meaning(f".{name.rpartition('.')[2]}", None, "collective")
        elif name in framework_names.OF_LIGHTNING_HOOKS and _is_hook_of_lightning(name, at.scope):
            return Meaning(f".{name.rpartition('.')[2]}", None, "collective")
        else:
            meant = values.project.resolve(at.scope, name)
            if isinstance(meant, Scope):
                return Meaning(meant.name, meant, _of_class(values, meant))
            if type(func) is ast.Attribute and (method := _of_member(values, func, at)) is not None:
                return Meaning(name, method)
            known = _of_name(meant if type(meant) is str else name)
            if known.does or _is_imported(at.scope, first):
                return known
            if "." not in name and (default := called_by_default(values, at.scope, name)):
                return _of_name(default)
            if "." not in name:
                taken = method_by_text(values, func, at)
                does = names.METHODS.get(taken, "")
                return _called_object(values, node, at, Meaning(f".{taken}", None, does) if does else known)
    if type(func) is ast.Attribute:
        return _method(values, node, func, at)
    return _called_object(values, node, at, Meaning(name))


def _looked_up(values: Values, asked: LookUp, at: At) -> Scope | None:
    """The function or class that a registry holds under the text that a call names."""
    key = default_literal(values, asked.key, at) if dotted(asked.owner) else None
    return values.index.looked_up(at.scope, asked, key.value) if key is not None else None


def _by_text(values: Values, node: ast.expr, at: At) -> str:
    """The full name that `getattr(optim, "SGD")` or `models.__dict__[args.arch]` stands for, also under a name, or nothing."""
    if isinstance(node, ast.Name) and node.id in at.scope.definitions:
        only = only_value(values, node, at)
        node, at = only if only is not None else (node, at)
    match node:
        case (
            ast.Call(func=ast.Name(id="getattr"), args=[owner, key, *_])
            | ast.Subscript(
                value=ast.Attribute(value=owner, attr="__dict__") | ast.Call(func=ast.Name(id="vars"), args=[owner]),
                slice=key,
            )
        ) if dotted(owner):
            held = default_literal(values, key, at)
            if held is not None and isinstance(held.value, str):
                meant = values.project.resolve(at.scope, f"{dotted(owner)}.{held.value}")
                return meant if isinstance(meant, str) else ""
    return ""


def _of_member(values: Values, func: ast.Attribute, at: At) -> Scope | None:
    """The method that is called of a member of a class of the program: `Variable.RANK.read()`."""
    if type(func.value) is not ast.Attribute:
        return None
    cls = class_meant(values.project, func.value.value, at.scope)
    return values.project.method(cls, func.attr) if cls is not None and func.value.attr in cls.definitions else None


def _is_lightning(values: Values, scope: Scope) -> bool:
    return scope.of_class is not None and values.project.is_a(scope.of_class, "LightningModule")


def _forward(values: Values, scope: Scope) -> Scope | None:
    """What `self(x)` calls in a model of the program: its `forward`."""
    model = scope.of_class is not None and values.project.is_a(scope.of_class, "Module", "LightningModule")
    return values.project.method(scope.of_class, "forward") if scope.of_class is not None and model else None


def _is_hook_of_lightning(name: str, scope: Scope) -> bool:
    """Whether the object of a name is Lightning's: `trainer` of a hook or beside `pl_module`, or one that has a strategy."""
    return {"trainer", "pl_module"} <= {*scope.parameters} or (
        "trainer" in scope.parameters
        and (name == "trainer.strategy.barrier" or scope.name in framework_names.HOOKS_OF_LIGHTNING)
    )


@lru_cache(names.MOST_NAMES)
def canonical(full: str) -> str:
    """A full name with the usual short names of torch's modules written out."""
    full = full.replace("torch.distributed.distributed_c10d.", names.DIST)
    for short, long in (
        ("dist.", names.DIST),
        ("nn.", "torch.nn."),
        ("mp.", "torch.multiprocessing."),
        ("np.", "numpy."),
    ):
        if full.startswith(short):
            return long + full[len(short) :]
    return full


@lru_cache(names.MOST_NAMES)
def _of_name(full: str) -> Meaning:
    """What a call of this full name is for, whoever makes it."""
    called = canonical(full)
    return Meaning(called, None, _known(called))


def _known(full: str) -> str:
    last = full.rpartition(".")[2]
    if full in names.FUNCTIONS:
        return names.FUNCTIONS[full]
    if full.startswith(names.DIST) and last in names.COLLECTIVES and full.count(".") <= 3:
        return "collective"
    if full.startswith(names.DIST_OF_OTHERS) and last in names.COLLECTIVES:
        return "collective"
    if last in framework_names.WATCHES_A_METRIC and full.startswith(framework_names.LIGHTNING):
        return "watches"
    if last == "Fabric":
        return names.ENDS[last]
    if last == "seed":  # of a package that is not known
        return names.METHODS[last]
    if last in names.ENDS and not full.startswith(("transformers.", "self.", *framework_names.LIGHTNING)):
        return names.ENDS[last]
    if full.startswith(("torchvision.datasets.", "torchaudio.datasets.")) and last[:1].isupper():
        return "dataset"
    if full.startswith(names.BACKBONES) and last[:1].islower():
        return "backbone"
    if full.startswith("torchmetrics.") and last[:1].isupper():
        return "metric"
    if full.startswith(names.DOWNLOADING) and last[:1].isupper() and not last.startswith(names.DOWNLOADS_NOT):
        return "download"
    if full.startswith(names.DOWNLOADING_DATASETS) and "Dataset" in last and not last.startswith(names.DOWNLOADS_NOT):
        return "download"
    return ""


def _of_class(values: Values, found: Scope) -> str:
    if found.is_class:
        if values.project.is_a(found, "DistributedSampler"):
            return "sampler"
        if values.project.is_a(found, "DistributedDataParallel"):
            return "wrap-ddp"
        if values.project.is_a(found, "DataLoader"):
            return "loader"
        if needs_the_epoch(values, found):
            return "own-sampler"
        if knows_no_rank(values, found):
            return "rankless-sampler"
        if is_trainer(values.project, found):
            return "hf-trainer"
    return ""


def _is_imported(scope: Scope, name: str) -> bool:
    at: Scope | None = scope
    while at is not None:
        if name in at.imports:
            return True
        if name in at.definitions or name in at.parameters:
            return False
        at = at.parent
    return False


def _imported_from(scope: Scope, name: str, package: str) -> bool:
    """Whether the first part of a dotted name is imported from a package, be the package a part of the program or not."""
    first = name.partition(".")[0]
    at: Scope | None = scope
    while at is not None:
        if first in at.imports:
            return f"{at.imports[first]}.".startswith(package)
        at = at.parent
    return False


def is_variable(scope: Scope, name: str) -> bool:
    """Whether a name is assigned to, or is a parameter, here or around."""
    at: Scope | None = scope
    while at is not None:
        if name in at.definitions or name in at.parameters:
            return True
        at = at.parent
    return False


def _method(values: Values, node: ast.Call, func: ast.Attribute, at: At) -> Meaning:
    name = func.attr
    receiver = values.of(func.value, at)
    if receiver and (known := _of_known_object(values, receiver, name, node, at)) is not None:
        return known
    if name.endswith("_") and is_gradient(func.value):
        return Meaning(f".{name}", None, "change-gradient")
    does = names.METHODS.get(name, "")
    if does == "collective" and name in {"gather_for_metrics", "wait_for_everyone"}:
        return Meaning(f".{name}", None, "collective")
    return _called_object(values, node, at, Meaning(f".{name}", None, does))


def _of_known_object(values: Values, receiver: Origins, name: str, node: ast.Call, at: At) -> Meaning | None:
    """What a method is for by the object that has it; None where the object does not tell."""
    for origin in receiver:
        if origin.kind in {Kind.INSTANCE, Kind.MODEL, Kind.DATASET, Kind.LOADER} and "::" in origin.note:
            cls = class_named(values.project, origin.note)
            method = values.project.method(cls, name) if cls is not None else None
            if method is not None:
                return Meaning(name, method, "")
            if (
                cls is not None
                and name in framework_names.RUNS_OF_TRAINERS["hf-trainer"]
                and is_trainer(values.project, cls)
            ):
                return Meaning(f".{name}", None, "collective-run")
    if does := _of_library_object({origin.note for origin in receiver if origin.kind is Kind.OBJECT}, name):
        return Meaning(f".{name}", None, does)
    for origin in receiver:
        if (origin.kind is Kind.WRAPPED and name in _FORWARDS) or (origin.kind is Kind.BARE and name in _TRAINED):
            return Meaning(f".{name}", None, "forward")
    return _of_inner_model(values, receiver, name, node, at)


def _of_library_object(notes: set[str], name: str) -> str:
    """What a method is for of objects of libraries, of which these are the notes; empty where they do not tell."""
    if not notes:
        return ""
    if "accelerator" in notes or "fabric" in notes:
        if any(name in _OF_LAUNCHERS.get(note, ()) for note in notes):
            return "collective"
        if name == "print":  # the main process alone prints
            return "log"
    if "generator" in notes and name in names.OF_GENERATORS:
        return "split"
    if "evaluator" in notes and name == "run":  # ignite's metrics gather what all ranks have counted
        return "collective"
    if "engine" in notes and name == "run":
        return "run-engine"
    if "lightning-trainer" in notes and name in framework_names.OF_LIGHTNING_TRAINER:
        return "collective"
    if any(name in framework_names.RUNS_OF_TRAINERS.get(note, ()) for note in notes):
        return "collective-run"
    return "collective" if "deepspeed" in notes and name in framework_names.OF_DEEPSPEED else ""


def _of_inner_model(values: Values, receiver: Origins, name: str, node: ast.Call, at: At) -> Meaning | None:
    """What `ddp.module.name(...)` calls: a method or a layer of the program's own model, or a forward of an unknown one."""
    inner = [one for one in receiver if one.kind is Kind.BARE]
    others = [one for one in receiver if one.kind is not Kind.BARE]  # `model.module if distributed else model`
    if (
        names.METHODS.get(name, "split") != "split"
        or len(inner) != 1
        or any(one.kind is not Kind.MODEL for one in others)
    ):
        return None
    cls = _class_inside(values, inner[0])
    if cls is not None and (method := values.project.method(cls, name)) is not None:
        return Meaning(name, method)
    if cls is not None:
        held = attribute_of(values, cls, name)
        return Meaning(f".{name}", None, "forward") if any(one.kind is Kind.MODEL for one in held) else None
    given = (one for argument in node.args for one in values.of(argument, at))
    return Meaning(f".{name}", None, "forward") if any(one.note in _DATA for one in given) else None


def _class_inside(values: Values, bare: Origin) -> Scope | None:
    """The class of the program whose object is inside of a wrapper, where there is one alone."""
    if bare.note == "prepared":  # it has kept the place of the model itself
        source = values.project.sources.get(bare.made.rsplit(":", 2)[0])
        meant = values.project.resolve(source.scopes[0], bare.text) if source is not None else None
        return meant if isinstance(meant, Scope) and meant.is_class else None
    made = values.maker(bare.made)
    if made is None or not made[0].node.args:
        return None
    wrap, scope, context = made
    models = values.within(context, lambda: values.of(wrap.node.args[0], At(scope, wrap.order, wrap.block)))
    classes = [class_named(values.project, one.note) for one in models if one.kind is Kind.MODEL]
    return classes[0] if len(classes) == 1 else None


def _called_object(values: Values, node: ast.Call, at: At, otherwise: Meaning) -> Meaning:
    """A call of an object: the forward of a model, where it is one."""
    if otherwise.does or otherwise.name.startswith(("torch.", "numpy.")):
        return otherwise
    if (inside := called_for(values, node, at)) is not None:
        return values.meaning(*inside)
    found = values.of(node.func, at)
    kinds = {origin.kind: origin for origin in found}
    if Kind.WRAPPED in kinds or Kind.BARE in kinds:
        return Meaning(otherwise.name, None, "forward")
    if Kind.MODEL in kinds:
        return Meaning(otherwise.name, None, "forward")
    if (
        len(found) == 1
        and Kind.FUNCTION in kinds
        and (made := values.code.function_named(kinds[Kind.FUNCTION].made)) is not None
    ):
        return Meaning(made.name, made)
    cls = class_named(values.project, kinds[Kind.INSTANCE].note) if Kind.INSTANCE in kinds else None
    called = values.project.method(cls, "__call__") if cls is not None else None
    return Meaning(otherwise.name, called) if called is not None else otherwise
