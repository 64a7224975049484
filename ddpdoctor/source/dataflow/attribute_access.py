"""What `object.name` can be."""

from __future__ import annotations

import ast
from dataclasses import replace

from ddpdoctor.evidence.code_values import PARSED, Kind, Origin
from ddpdoctor.source.dataflow.held_by_names import held_under
from ddpdoctor.source.dataflow.object_attributes import attribute_of, attribute_of_self, field_of, held_by_any
from ddpdoctor.source.dataflow.origins import At, Origins, joined, note_of, without_context
from ddpdoctor.source.dataflow.reaching_definitions import END, reaching
from ddpdoctor.source.dataflow.returned_values import returned, uncalled
from ddpdoctor.source.dataflow.values import Values
from ddpdoctor.source.dataflow.written_dicts import items_of
from ddpdoctor.source.names import framework_names, rank_names
from ddpdoctor.source.names.dotted_names import dotted
from ddpdoctor.source.program.calling_contexts import CallingContext
from ddpdoctor.source.program.classes import class_meant, class_named, is_trainer
from ddpdoctor.source.syntax.scopes import RawCall, Scope

_SAME_FOR_ALL = frozenset(
    {"shape", "dtype", "device", "ndim", "requires_grad", "is_cuda", "grad_fn", "is_leaf", "layout", "is_sparse"}
)
"""What ranks have alike of their batches and losses."""

_OF_LOADERS = {"dataset": 0, "sampler": 3, "batch_sampler": 4}
"""Attributes of a DataLoader that hold what it was given, with the positions of the arguments."""


def attribute(values: Values, node: ast.Attribute, at: At) -> Origins:
    """The alternatives of `object.name`."""
    key = dotted(node)
    if output := _output_of_engine(values, node, at):
        return output
    if key:
        assigned = at.scope.definitions.get(key)
        if assigned:
            _, always = reaching(assigned, at.order, at.block)
            if always:
                return held_under(values, key, at)
        meant = values.project.resolve(at.scope, key)
        if isinstance(meant, tuple):
            module, name = meant
            return held_under(values, name, At(module, END, module.root))
        if isinstance(meant, Scope):
            return () if meant.is_class else (uncalled(values, meant, key),)
        if meant.startswith("torch."):
            return ()
        cls = class_meant(values.project, node.value, at.scope)
        if cls is not None and (found := attribute_of(values, cls, node.attr)):
            return joined([*found, *field_of(values, cls.name, node.attr, at.scope.file)])
    return _of_object(values, node, key, at)


def _given_to_loader(node: ast.Call, name: str) -> ast.expr | None:
    """What a DataLoader is given under a name, or at its position."""
    position = _OF_LOADERS[name]
    plain = dotted(node.func).rpartition(".")[2] == "DataLoader" and position < len(node.args)
    if plain and not any(isinstance(one, ast.Starred) for one in node.args[: position + 1]):
        return node.args[position]
    return next((keyword.value for keyword in node.keywords if keyword.arg == name), None)


def _output_of_engine(values: Values, node: ast.Attribute, at: At) -> Origins:
    """What `engine.state.output` holds in a handler of Ignite: what the engine's step function returns."""
    if node.attr != "output" or not dotted(node.value).endswith(".state"):
        return ()
    for decorator in at.scope.decorators:
        called = decorator.func if isinstance(decorator, ast.Call) else decorator
        engine, _, how = dotted(called).rpartition(".")
        around = at.scope.parent
        if how != "on" or not engine or around is None:
            continue
        for definition in around.definitions.get(engine, ()):
            made = definition.value
            if isinstance(made, ast.Call) and dotted(made.func).endswith("Engine") and made.args:
                step = values.project.resolve(around, dotted(made.args[0]))
                if isinstance(step, Scope) and not step.is_class:
                    return returned(values, step)
    return ()


def _of_object(values: Values, node: ast.Attribute, key: str, at: At) -> Origins:
    found: list[Origin] = []
    owner = node.value
    of_owner: Origins = ()
    if isinstance(owner, ast.Name) and owner.id in {"self", "cls"}:
        cls = at.scope.of_class
        if cls is not None:
            found += attribute_of_self(values, cls, node.attr)
    else:
        of_owner = values.of(owner, at)
        shared = [origin for origin in of_owner if origin.kind is Kind.SHARED]
        local = [origin for origin in of_owner if origin.kind is Kind.LOCAL]
        if local and not shared:
            shared = _reduced_by_itself(values, of_owner, node.attr)
        for origin in (
            shared or local or of_owner
        ):  # what this object was given counts, not what others of its class were
            found += _from_origin(values, origin, node.attr)
    if not found and node.attr == "model" and isinstance(owner, ast.Name) and owner.id == "runner" and not of_owner:
        cls = at.scope.of_class
        if cls is not None and values.project.is_a(cls, "Hook"):  # MMEngine's runner has wrapped its model
            return (Origin(kind=Kind.WRAPPED, text="runner.model", note="prepared"),)
    if not found:
        found += _of_namespace(values, owner, node.attr, at)
        tail = owner.attr if isinstance(owner, ast.Attribute) else owner.id if isinstance(owner, ast.Name) else ""
        found += field_of(values, tail, node.attr, at.scope.file) if tail and tail != "self" else ()
        if not found and isinstance(owner, ast.Name) and owner.id in framework_names.TRAINERS and not of_owner:
            found += held_by_any(values, node.attr, at.scope.file)
    if not found and node.attr in rank_names.METHODS_OF_TRAINERS and _is_hf_trainer(values, owner, of_owner, at):
        return (Origin(kind=Kind.FUNCTION, text=key or node.attr, note="tests the rank"),)
    if not found and (of_framework := _of_framework(values, node, key, at)) is not None:
        return (of_framework,)
    if not found and node.attr in rank_names.RANK_NAMES:
        return (Origin(kind=rank_names.RANK_NAMES[node.attr], text=key or node.attr, note=note_of(node.attr)),)
    return joined(found)


def _of_namespace(values: Values, owner: ast.expr, name: str, at: At) -> Origins:
    """What a `SimpleNamespace` was made with under a name; nothing of other objects."""
    items = items_of(values, owner, at)
    return values.of(*items[name]) if items is not None and name in items else ()


def _is_hf_trainer(values: Values, node: ast.expr, objects: Origins, at: At) -> bool:
    """Whether an object is the Trainer of transformers, or one of a class of the program that is derived from it."""
    if isinstance(node, ast.Name) and node.id == "self":
        return at.scope.of_class is not None and is_trainer(values.project, at.scope.of_class)
    made = (class_named(values.project, one.note) for one in objects if one.kind is Kind.INSTANCE)
    return any(one.note == "hf-trainer" for one in objects) or any(
        cls is not None and is_trainer(values.project, cls) for cls in made
    )


def _of_framework(values: Values, node: ast.Attribute, key: str, at: At) -> Origin | None:
    """What objects of other packages hold that depends on the rank, and whose names do not say so."""
    owner = dotted(node.value).rpartition(".")[2].lstrip("_")
    if node.attr in rank_names.OF_WRITERS and owner.endswith("args"):
        known = "transformers" in values.project.sources[at.scope.file].text
        return Origin(kind=Kind.RANK, text=key, note="first" if known else "uncertain")
    if node.attr == "output" and owner == "state" and _returns_its_own(values.project.sources[at.scope.file].text):
        return Origin(kind=Kind.LOCAL, text=key, note="own")
    if (owner, node.attr) in rank_names.WORLD_SIZES:
        return Origin(kind=Kind.WORLD_SIZE, text=key)
    run = node.attr == "run" and owner == "wandb"  # None where the rank has not called `wandb.init`
    dummy = node.attr == "experiment" and owner.endswith("logger")  # of Lightning, on all ranks but the first one
    return Origin(kind=Kind.SOME_RANKS, text=key, note="uncertain") if run or dummy else None


def _returns_its_own(text: str) -> bool:
    """Whether the output of Ignite's engines in a file is what the update function of this rank returned, and nothing reduced."""
    return "ignite" in text and "reduce(" not in text


def _reduced_by_itself(values: Values, objects: Origins, name: str) -> list[Origin]:
    """What a method of an object assigns to its attribute out of a collective: `self.value = out.item()` after a reduction."""
    instances = (origin for origin in objects if origin.kind is Kind.INSTANCE)
    given = (one for origin in instances for one in _from_origin(values, origin, name))
    return [one for one in given if one.kind is Kind.SHARED]


def _constructed(values: Values, origin: Origin) -> tuple[RawCall, Scope, CallingContext | None] | None:
    """The call that made an object of a class of the program."""
    cls = class_named(values.project, origin.note)
    made = values.index.constructions.get(id(cls), ()) if cls is not None else ()
    place = without_context(origin.made)
    return next(((call, scope, None) for scope, call in made if values.where(call.node, scope) == place), None)


def _model_of_trainer(values: Values, trainer: Origin) -> Origins:
    """The model that a Trainer of transformers was made with."""
    made = values.maker(trainer.made) or _constructed(values, trainer)
    if made is None:
        return ()
    call, scope, context = made
    given = next((one.value for one in call.node.keywords if one.arg == "model"), next(iter(call.node.args), None))
    return values.within(context, lambda: values.of(given, At(scope, call.order, call.block)))


def _from_origin(values: Values, origin: Origin, name: str) -> Origins:
    if origin.kind in {Kind.INSTANCE, Kind.MODEL, Kind.DATASET, Kind.LOADER} and "::" in origin.note:
        cls = class_named(values.project, origin.note)
        if cls is None:
            return ()
        single = values.objects.find(cls, origin.made) if origin.kind is Kind.INSTANCE else None
        found = values.of_object(single, lambda: attribute_of(values, cls, name))
        if (
            origin.text == PARSED and name in cls.fields
        ):  # the command line may give another value, but for what ranks draw
            found = tuple(one for one in found if one.kind is Kind.LOCAL)
        return found or (
            _model_of_trainer(values, origin) if name == "model" and is_trainer(values.project, cls) else ()
        )
    if name == "model" and origin.note == "hf-trainer":
        return _model_of_trainer(values, origin)
    if origin.kind is Kind.SOME_RANKS and origin.note == "uncertain":
        return (origin, replace(origin, kind=Kind.RANK))
    if origin.kind is Kind.WRAPPED and name == "module":
        return (replace(origin, kind=Kind.BARE),)
    if origin.kind is Kind.LOADER and name in _OF_LOADERS and (made := values.maker(origin.made)):
        call, scope, context = made
        given = _given_to_loader(call.node, name)
        return values.within(context, lambda: values.of(given, At(scope, call.order, call.block)))
    if origin.note == "job-environment" and name in rank_names.OF_JOB_ENVIRONMENT:
        return (Origin(kind=rank_names.OF_JOB_ENVIRONMENT[name], text=f"{origin.text}().{name}"),)
    if origin.note in {"parameters", "gradients"} and name in {"grad", "data"}:
        return (replace(origin, note="gradients" if name == "grad" else origin.note),)
    if origin.note in {"optimizer", "zero"} and name == "param_groups":
        return (replace(origin, note="settings"),)
    if origin.kind is Kind.SAMPLER and name in {"sampler", "batch_sampler"}:
        return (origin,)
    if origin.kind is Kind.LOCAL and origin.made and name in _SAME_FOR_ALL:
        return ()
    if origin.kind in {Kind.LOCAL, Kind.SHARED}:
        return (origin,)
    if name in {"iloc", "loc", "values", "index"} and (origin.note == "drawn" or origin.kind is Kind.UNORDERED):
        return (origin,)
    return ()
