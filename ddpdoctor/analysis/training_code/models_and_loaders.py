"""What the training code's loaders, wrapped models and losses are made of."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from ddpdoctor.analysis.training_code.call_graph import CallGraph
from ddpdoctor.analysis.training_code.collective_calls import COLLECTIVE, gradients_in
from ddpdoctor.evidence.code_values import Kind, Origin, Value
from ddpdoctor.evidence.training_code import Call, Cut, Function

DEEPEST = 6  # calls from an `__init__` to what makes a part
_NORMALISED = (
    *("resnet", "resnext", "wide_resnet", "densenet", "mobilenet", "mnasnet", "efficientnet", "regnet", "inception"),
    *("googlenet", "shufflenet", "deeplabv3_", "fcn_resnet", "lraspp_"),
)
"""How the names of torchvision's models begin that have batch normalisation."""


@dataclass(frozen=True, slots=True)
class PartsOfModel:
    """The objects that a model consists of."""

    made: frozenset[str]
    """The calls that made the model."""
    classes: frozenset[str]
    """The classes of the program among them and their parts, as `file::Class`."""


def loaders_of(graph: CallGraph, value: Value) -> list[tuple[Function, Call]]:
    """The calls that made the data loaders that a value can be, or was taken from."""
    found = [graph.made[made] for made in value.made if made in graph.made]
    return [(function, call) for function, call in found if call.does == "loader" or own_cut(graph, call) is not None]


def is_sharded(graph: CallGraph, loader: Call) -> bool:
    """Whether each rank gets its part: by a sampler, or by a data set or a loader of the program that cuts its own."""
    given = loader.argument("sampler", 3) or loader.argument("batch_sampler", 4)
    if given is not None and given.may(Kind.SAMPLER) is not None:
        return True
    dataset = loader.argument("dataset", 0)
    if dataset is not None and any(one.kind is Kind.DATASET and one.note == "part" for one in dataset.origins):
        return True
    return cut_inside(graph, loader) is not None or own_cut(graph, loader) is not None or _is_of_a_part(graph, loader)


def _is_of_a_part(graph: CallGraph, loader: Call) -> bool:
    """Whether a loader's data set, of a class of the program, is made of a list that the rank has cut: `Clips(mine)`."""
    dataset = loader.argument("dataset", 0)
    origin = dataset.only(Kind.DATASET) if dataset is not None else None
    made = graph.made.get(origin.made) if origin is not None and origin.note else None
    return made is not None and any(
        one.note in {"part", "even"} for argument in made[1].arguments for one in argument.value.origins
    )


def own_cut(graph: CallGraph, made: Call) -> Cut | None:
    """Where the class of the program that a call makes an iterable object of takes the rank's part of a list."""
    cls, _, method = made.target.rpartition(".")
    if method not in {"__init__", "__post_init__"} or f"{cls}.__iter__" not in graph.functions:
        return None
    found = (graph.functions.get(f"{cls}.{name}") for name in ("__init__", "__post_init__", "__iter__"))
    return next((cut for each in found if each is not None for cut in each.cuts), None)


def cut_inside(graph: CallGraph, loader: Call) -> Cut | None:
    """Where the class of a loader's data set, or a helper of it, takes the rank's part of a list; None where none does."""
    dataset = loader.argument("dataset", 0)
    origin = dataset.only(Kind.DATASET, Kind.INSTANCE) if dataset is not None else None
    methods = ("__init__", "__iter__") if origin is not None and origin.note else ()
    made = [graph.functions.get(f"{origin.note}.{name}") for name in methods if origin is not None]
    own = [each for each in made if each is not None]
    helpers = (graph.functions.get(call.target) for each in own for call in each.calls)
    return next((cut for each in (*own, *helpers) if each is not None for cut in each.cuts), None)


def wraps_of(graph: CallGraph, value: Value) -> list[tuple[Function, Call]]:
    """The calls that wrapped the model that a value can be."""
    return [
        graph.made[made] for made in value.made if made in graph.made and graph.made[made][1].does.startswith("wrap-")
    ]


def always_wrapped(graph: CallGraph, value: Value) -> bool:
    """Whether a value is a wrapped model, or the one that is wrapped where there are several ranks: `if distributed: ...`."""
    inner = {
        made
        for _, wrap in wraps_of(graph, value)
        if (model := wrap.argument("module", 0)) is not None
        for made in model.made
    }
    rest = [origin for origin in value.origins if origin.kind is not Kind.CONSTANT]
    return value.may(Kind.WRAPPED) is not None and all(
        one.kind is Kind.WRAPPED or (one.kind is Kind.MODEL and one.made in inner) for one in rest
    )


def averaged_by_hand(graph: CallGraph) -> frozenset[str]:
    """The calls that made the models whose gradients a collective of the program reduces, parameter by parameter."""

    def find() -> frozenset[str]:
        given = (gradients_in(call) for purpose in COLLECTIVE for _, call in graph.calls(purpose))
        return frozenset(one.made for one in given if one is not None and one.made)

    return graph.once("averaged by hand", find)


def is_of_wrapped(graph: CallGraph, function: Function, value: Value) -> bool:
    """Whether a value is a wrapped model, the module inside, or what a wrapper in the function's programs was made of."""
    if value.may(Kind.WRAPPED, Kind.BARE) is not None:
        return True
    inner = (wrap.argument("module", 0) for _, wrap in graph.calls_near(function, "wrap-ddp"))
    return any(model is not None and model.made & value.made for model in inner)


def parts_of(graph: CallGraph, wrap: Call) -> PartsOfModel:
    """What a wrapper was given, with the models of the program that are made inside of it."""

    def find() -> PartsOfModel:
        module = wrap.argument("module", 0)
        origins = module.origins if module is not None else ()
        waiting = [one.note for one in origins if one.kind is Kind.MODEL and "::" in one.note]
        classes: set[str] = set()
        while waiting:
            cls = waiting.pop()
            init = graph.functions.get(f"{cls}.__init__") if cls not in classes else None
            classes.add(cls)
            targets = (call.target for call in (init.calls if init is not None else ()))
            waiting += [each.removesuffix(".__init__") for each in targets if each.endswith(".__init__")]
        return PartsOfModel(frozenset(one.made for one in origins if one.made), frozenset(classes))

    return graph.once(("parts", wrap.id), find)


def holds(graph: CallGraph, parts: PartsOfModel, value: Value) -> bool:
    """Whether a value is the model, or is made where one of its classes makes its layers."""
    return any(
        made in parts.made or graph.files.function_around(made).removesuffix(".__init__") in parts.classes
        for made in value.made
    )


def stepped(graph: CallGraph, receiver: Value) -> Origin | None:
    """The parameters of a wrapped model that an object steps, where it is their optimizer for certain."""
    optimizer = receiver.only(Kind.OBJECT)
    made = graph.made.get(optimizer.made) if optimizer is not None and optimizer.note == "optimizer" else None
    given = made[1].argument("params", 0) if made is not None else None
    wrapped = given.only(Kind.OBJECT) if given is not None else None
    maker = graph.made.get(wrapped.made) if wrapped is not None and wrapped.note == "parameters" else None
    return wrapped if maker is not None and maker[1].does.startswith("wrap-") else None


def forwards_of(graph: CallGraph, value: Value) -> list[tuple[Function, Call]]:
    """The forward calls that a loss comes from."""
    found = [graph.made[made] for made in value.made if made in graph.made]
    return [(function, call) for function, call in found if call.does == "forward"]


def loss_of(graph: CallGraph, backward: Call) -> Value | None:
    """What a backward begins with: `loss` of `loss.backward()` and of `accelerator.backward(loss)`."""
    given = backward.argument("loss", 0)
    if given is not None and forwards_of(graph, given):
        return given
    return backward.receiver


def trains(graph: CallGraph, forward: Call) -> bool:
    """Whether a backward follows on what a forward gave, in its own function or in another."""
    return any(call.does == "backward" for _, call in graph.taken_by(forward.id))


def has_buffers(graph: CallGraph, model: Value) -> bool:
    """Whether a model has buffers that its wrapper broadcasts: those of batch normalisation, or registered by its classes."""
    return has_batch_norm(graph, model) or any(
        one.kind is Kind.MODEL and one.note and _calls(graph, f"{one.note}.__init__", _registers_buffer, DEEPEST)
        for one in model.origins
    )


def has_batch_norm(graph: CallGraph, model: Value) -> bool:
    """Whether a model has batch normalisation for certain, itself or in a layer that its class makes."""
    for origin in model.origins:
        if origin.note == "batch-norm":
            return True
        if origin.kind is not Kind.MODEL:
            continue
        if origin.text.rpartition(".")[2].lower().startswith(_NORMALISED) or (
            origin.note and _is_normalised(graph, origin.note)
        ):
            return True
    return False


def _is_normalised(graph: CallGraph, cls: str) -> bool:
    """Whether a class of the program, `file::Class`, makes batch normalisation, or its file names one and was not read."""
    module = graph.modules.get(cls.partition("::")[0])
    return _calls(graph, f"{cls}.__init__", _normalises, DEEPEST) or (
        module is not None
        and not module.functions
        and bool({"BatchNorm1d", "BatchNorm2d", "BatchNorm3d"} & {*module.words})
    )


def _normalises(call: Call) -> bool:
    """Whether a call makes a layer of batch normalisation, or a model of torchvision that has such layers."""
    known = call.does == "backbone" and call.name.rpartition(".")[2].startswith(_NORMALISED)
    return known or call.does == "batch-norm"


def _registers_buffer(call: Call) -> bool:
    """Whether a call registers a buffer whatever the configuration: attention has a mask only where it is not fused."""
    return call.does == "buffer" and not call.guards


def _calls(graph: CallGraph, function_id: str, wanted: Callable[[Call], bool], depth: int) -> bool:
    """Whether a function, or one that it calls, makes a call that is wanted."""
    function = graph.functions.get(function_id)
    if function is None or not depth:
        return False
    return any(
        wanted(call) or (call.target and _calls(graph, call.target, wanted, depth - 1)) for call in function.calls
    )
