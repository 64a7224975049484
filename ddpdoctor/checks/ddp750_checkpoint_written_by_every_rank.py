"""DDP750: all ranks write their checkpoint to one path."""

from __future__ import annotations

import re
from collections.abc import Iterator

from ddpdoctor.analysis.training_code.all_ranks import all_enter, line_on_all_ranks
from ddpdoctor.analysis.training_code.call_graph import CallGraph
from ddpdoctor.analysis.training_code.frameworks import DOES_THE_DEVICE
from ddpdoctor.analysis.training_code.models_and_loaders import is_of_wrapped
from ddpdoctor.analysis.training_code.several_ranks import divides_parameters, runs_several, started_on_each_rank
from ddpdoctor.evidence.code_values import COPY, RANK_KINDS, Kind, Origin
from ddpdoctor.evidence.training_code import Call, Function, Guard
from ddpdoctor.messages.code_findings import code_finding, short
from ddpdoctor.model import Finding, Rule, Severity

RULE = Rule(
    code="DDP750",
    name="checkpoint-written-by-every-rank",
    summary="every rank saves to the same path: the file holds what several ranks wrote at once",
    severity=Severity.WARN,
    remedy="save on rank 0 only: `if dist.get_rank() == 0:`",
)


_LEAVES_SAVES = frozenset({"accelerate", "fabric", "ignite", "mmengine"})
"""Frameworks that leave torch.save to the program where it calls it."""
_SHARDS = ("ParallelismConfig", "FullyShardedDataParallelPlugin", "DeepSpeedPlugin", "get_state_dict", "fully_shard")
"""What programs of Accelerate call that divide the parameters among the ranks."""
_CALLED_A_MODEL = re.compile(r"(?i)model['\"]?\]?$|(?:net|backbone|encoder|decoder)$")
_MOST_HELPERS = 3  # functions from a hook to the save
_PLAIN = ("open", "no_grad", "inference_mode", "BlobFile")


def check(graph: CallGraph) -> Iterator[Finding]:
    """One finding for each save of a model that no test of the rank guards, in a function that every rank runs."""
    for function, call in graph.calls("save"):
        if (
            call.name not in {"torch.save", ".save_pretrained"}
            or not line_on_all_ranks(graph, function, call)
            or any(not context.name.endswith(_PLAIN) and not all_enter(graph, context) for context in call.contexts)
        ):
            continue
        in_hook = _in_hook(graph, function)
        whole = call.name == "torch.save"
        left = in_hook or (not whole and _beside_a_trainer(graph, function))
        if (not left and graph.any_program(function, DOES_THE_DEVICE - _LEAVES_SAVES)) or _sharded(graph, function):
            continue
        if not whole and _may_gather(graph, function, call):
            continue
        path = call.argument("f", 1) if whole else call.argument("save_directory", 0)
        if (
            path is None
            or path.may(*RANK_KINDS, Kind.SOME_RANKS, Kind.OBJECT)
            or any(one.kind is Kind.LOCAL and not _often_alike(one) for one in path.origins)
            or (whole and not path.origins)
        ):
            continue
        if in_hook:
            if _left_before(function, call) or not (
                _has_state(graph, function, call) if whole else _is_called_a_model(call)
            ):
                continue
        elif not (_is_model(graph, function, call) if whole else _is_wrapped(graph, function, call)):
            continue
        if any(_decides(guard) for guard in call.guards):
            continue
        yield code_finding(
            RULE,
            f"every rank writes {path.text} at once: the file may hold parts of several writes",
            call.place,
            remedy=f"write `if dist.get_rank() == 0:` before {short(call)}, and `dist.barrier()` behind it",
        )


def _decides(guard: Guard) -> bool:
    """Whether a test may let one rank alone save, or asks whether there are several."""
    return guard.of_job or (guard.by_local is not None and "best" not in guard.test)


def _often_alike(origin: Origin) -> bool:
    """Whether ranks that start together have the same value mostly: the time in a name, or an item of a list that all go over."""
    return origin.note == "item" or any(word in origin.text for word in ("strftime", ".now(", "ctime"))


def _in_hook(graph: CallGraph, function: Function) -> bool:
    """Whether a framework calls a function in every process, itself or through others, and certainly runs several."""
    reached, waiting = {function.id: function}, [function]
    for _ in range(_MOST_HELPERS):
        callers = [caller for each in waiting for caller, _ in graph.callers.get(each.id, ())]
        waiting = [caller for caller in callers if caller.id not in reached]
        reached |= {caller.id: caller for caller in waiting}
    hooks = {each.hook for each in reached.values() if each.hook}
    return bool(hooks) and all(
        runs_several(graph, function, hook) and not divides_parameters(graph, function, hook) for hook in hooks
    )


def _beside_a_trainer(graph: CallGraph, function: Function) -> bool:
    """Whether a Trainer of transformers certainly runs several ranks, each with the whole model, and leaves this line to them."""
    given = next(graph.calls_near(function, "hf-trainer"), None) is not None
    return given and started_on_each_rank(graph, function) and not divides_parameters(graph, function, "transformers")


def _left_before(function: Function, save: Call) -> bool:
    """Whether a function leaves before a save where there is one rank, or where there are several."""
    return any(each.order < save.order and any(one.of_job for one in each.guards) for each in function.exits)


def _has_state(graph: CallGraph, function: Function, save: Call) -> bool:
    """Whether what is saved holds the state of a module: a framework gives its hooks the job's own."""
    return any(call.receiver is not None for call in _states(graph, function, save))


def _is_called_a_model(save: Call) -> bool:
    """Whether what saves itself is called a model, and is not told which ranks write."""
    asked = save.argument("is_main_process") is not None or save.argument("save_function") is not None
    return not asked and save.receiver is not None and _CALLED_A_MODEL.search(save.receiver.text) is not None


def _may_gather(graph: CallGraph, function: Function, save: Call) -> bool:
    """Whether a model that saves itself may gather its parts from all ranks: a framework's own wrapper, or its shards."""
    if graph.any_program(function, ("fabric", *_SHARDS)):
        return True
    return graph.any_program(function, ("accelerate",)) and (
        save.receiver is None or save.receiver.only(Kind.BARE) is None
    )


def _sharded(graph: CallGraph, function: Function) -> bool:
    return next(graph.calls_near(function, "wrap-fsdp"), None) is not None


def _is_wrapped(graph: CallGraph, function: Function, call: Call) -> bool:
    """Whether a model that was wrapped saves itself, and is not told which ranks write."""
    asked = call.argument("is_main_process") is not None or call.argument("save_function") is not None
    return not asked and _of_the_job(graph, function, call)


def _is_model(graph: CallGraph, function: Function, save: Call) -> bool:
    """Whether what is saved is the state of a wrapped model."""
    return any(_of_the_job(graph, function, call) for call in _states(graph, function, save))


def _states(graph: CallGraph, function: Function, save: Call) -> Iterator[Call]:
    """The calls that give the state which is saved: those that the argument comes from, and those just before."""
    saved = save.argument("obj", 0)
    made = [graph.made[one.made][1] for one in saved.origins if one.made in graph.made] if saved is not None else []
    yield from (call for call in made if call.does == "state-dict")
    for call in function.calls:
        if call.does == "state-dict" and call.place.line <= save.place.line + 12 and call.order < save.order:
            yield call


def _of_the_job(graph: CallGraph, function: Function, call: Call) -> bool:
    """Whether the object of a method is a wrapped model, the module inside, a copy of it, or what a wrapper was made of."""
    if call.receiver is None:
        return False
    copied = any(one.kind is Kind.MODEL and one.note == COPY for one in call.receiver.origins)
    if copied or is_of_wrapped(graph, function, call.receiver):
        return True
    if not call.receiver.origins and call.receiver.text.endswith(".module"):  # `getattr(self, name).module`
        return next(graph.calls_near(function, "wrap-ddp"), None) is not None
    inner = [made.argument("model", 0) for _, made in graph.calls_near(function, "hf-trainer")]
    return any(model is not None and model.made & call.receiver.made for model in inner)
