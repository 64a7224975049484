"""Which calls are collectives of the whole job."""

from __future__ import annotations

from ddpdoctor.evidence.code_values import Kind, Origin, Value
from ddpdoctor.evidence.training_code import Call, Function, Guard

COLLECTIVE = frozenset({"collective", "collective-save", "collective-run"})
"""Purposes of calls that all ranks must make; `collective-run` is that of a Trainer's `fit` or `evaluate`."""


_GROUP_AT = {
    "barrier": 0, "all_reduce": 2, "broadcast": 2, "all_gather": 2, "all_gather_into_tensor": 2, "all_gather_object": 2,
    "broadcast_object_list": 2, "all_to_all": 2, "reduce": 3, "gather": 3, "scatter": 3, "reduce_scatter": 3,
}  # fmt: skip
"""The position of the group among the arguments of torch's collectives."""


def group_of(call: Call) -> Value | None:
    """The process group that a collective is given, by name or by its position; None where it is given none."""
    at = _GROUP_AT.get(call.name.removeprefix("torch.distributed."))
    return call.argument("group", at) or call.argument("process_group")


def is_collective(call: Call) -> bool:
    """Whether a call is a collective of the whole job: one over another group is not judged."""
    if call.does not in COLLECTIVE:
        return False
    group = group_of(call)
    return group is None or group.constant == "None" or group.text.endswith("WORLD")


def gradients_in(call: Call) -> Origin | None:
    """The gradients that a collective is given, parameter by parameter; None where it is given something else."""
    if call.does not in COLLECTIVE:
        return None
    given = (origin for argument in call.arguments for origin in argument.value.origins)
    return next((one for one in given if one.kind is Kind.OBJECT and one.note == "gradients"), None)


def asks_for_gradient(guard: Guard) -> bool:
    """Whether a test asks only for a parameter's gradient: `p.grad is not None`, `p.requires_grad`."""
    return bool(guard.names) and all(name.endswith((".grad", ".requires_grad")) for name in guard.names)


def in_both_branches(call: Call, function: Function) -> bool:
    """Whether a collective under a test of the rank, as of a sender, has its like in the other branch of that test."""
    decides = [guard for guard in call.guards if not guard.state and guard.form != "main"]
    if len(decides) != 1 or decides[0].form != "if" or not decides[0].by_rank:
        return False
    return any(
        is_collective(other)
        and other.name == call.name
        and not other.loops
        and [guard.form for guard in other.guards if not guard.state and guard.form != "main"] == ["else"]
        and any(guard.form == "else" and guard.test == decides[0].test for guard in other.guards)
        for other in function.calls
    )
