"""What the training code's loaders, wrapped models and losses are made of."""

from __future__ import annotations

from ddpdoctor.analysis.training_code.call_graph import DEEPEST, CallGraph
from ddpdoctor.evidence.training_code import Call, Cut, Function, Kind, Value


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
    return cut_inside(graph, loader) is not None or own_cut(graph, loader) is not None


def own_cut(graph: CallGraph, made: Call) -> Cut | None:
    """Where the class of the program that a call makes an iterable object of takes the rank's part of a list."""
    cls, _, method = made.target.rpartition(".")
    if method not in {"__init__", "__post_init__"} or f"{cls}.__iter__" not in graph.functions:
        return None
    found = (graph.functions.get(f"{cls}.{name}") for name in ("__init__", "__post_init__", "__iter__"))
    return next((cut for each in found if each is not None for cut in each.cuts), None)


def cut_inside(graph: CallGraph, loader: Call) -> Cut | None:
    """Where the class of a loader's data set takes the rank's part of a list; None where it does not."""
    dataset = loader.argument("dataset", 0)
    origin = dataset.only(Kind.DATASET, Kind.INSTANCE) if dataset is not None else None
    methods = ("__init__", "__iter__") if origin is not None and origin.note else ()
    made = (graph.functions.get(f"{origin.note}.{name}") for name in methods if origin is not None)
    return next((cut for each in made if each is not None for cut in each.cuts), None)


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


def has_batch_norm(graph: CallGraph, model: Value) -> bool:
    """Whether a model has buffers that its wrapper broadcasts, as batch normalisation does."""
    names = (
        "resnet",
        "resnext",
        "densenet",
        "mobilenet",
        "efficientnet",
        "regnet",
        "inception",
        "googlenet",
        "shufflenet",
        "deeplabv3_",
        "fcn_resnet",
        "lraspp_",
    )
    for origin in model.origins:
        if origin.note == "batch-norm":
            return True
        if origin.kind is Kind.MODEL and origin.text.rpartition(".")[2].lower().startswith(names):
            return True
        if origin.kind is not Kind.MODEL or not origin.note:
            continue
        module = graph.modules.get(origin.note.partition("::")[0])
        if _norms(graph, f"{origin.note}.__init__", DEEPEST) or (
            module is not None
            and not module.functions
            and {"BatchNorm1d", "BatchNorm2d", "BatchNorm3d"} & {*module.words}
        ):
            return True
    return False


def _norms(graph: CallGraph, function_id: str, depth: int) -> bool:
    function = graph.functions.get(function_id)
    if function is None or not depth:
        return False
    return any(
        call.does == "batch-norm" or (call.target and _norms(graph, call.target, depth - 1)) for call in function.calls
    )
