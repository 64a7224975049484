"""What the ranks of a process group must agree on in one collective, and what they may do differently."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import Enum
from math import prod

from ddpdoctor.evidence.recorder import Call

SAME_NAMES = {
    "all_gather_single": "_all_gather_base",
    "all_gather_into_tensor": "_all_gather_base",
    "reduce_scatter_single": "_reduce_scatter_base",
    "reduce_scatter_tensor": "_reduce_scatter_base",
    "all_reduce_barrier": "barrier",
}
ALIKE_ON_EVERY_RANK = {
    "all_reduce",
    "broadcast",
    "reduce",
    "allreduce_coalesced",
    "_all_gather_base",
    "_reduce_scatter_base",
    "all_gather_into_tensor_coalesced",
    "reduce_scatter_tensor_coalesced",
}
EXCHANGES = {"all_to_all", "all_to_all_v"}
WITH_A_LIST_OF_OUTPUTS = {"all_gather", "all_gather_v"}
WITH_A_LIST_OF_INPUTS = {"reduce_scatter", "reduce_scatter_v"}
NEEDS_ALL = {"barrier", "all_reduce", "allreduce_coalesced", "_all_gather_base", "_reduce_scatter_base", "all_to_all"}


class MismatchKind(Enum):
    """The first thing that ranks differ in, the gravest first."""

    OPERATION = "operation"
    SHAPE = "shape"
    DTYPE = "dtype"


def operation(calls: Sequence[Call]) -> str:
    """The operation's name as ranks must agree on it: PyTorch has renamed some over time."""
    return " + ".join(SAME_NAMES.get(call.op, call.op) for call in calls) or "an unknown call"


def mismatch_kind(calls: Mapping[int, tuple[Call, ...]], positions: Mapping[int, int]) -> MismatchKind | None:
    """What ranks differ in, in one collective that each made as `calls[rank]`; None where they agree as they must.

    `positions` is each rank's place in the group. Uneven sizes are legal where the lists that describe them agree.
    """
    known = {rank: issued for rank, issued in calls.items() if issued}
    if len({operation(issued) for issued in known.values()}) > 1:
        return MismatchKind.OPERATION
    if len(set(map(shape, known.values()))) > 1 and not _fit(known, positions):
        return MismatchKind.SHAPE
    if len({held for issued in known.values() if (held := dtypes(issued))}) > 1:
        return MismatchKind.DTYPE
    return None


def needs_all(calls: Sequence[Call]) -> bool:
    """Whether no rank can complete this call before all others have made it, because it needs the data of each."""
    names = {SAME_NAMES.get(call.op, call.op) for call in calls}
    return bool(names) and names <= NEEDS_ALL | WITH_A_LIST_OF_OUTPUTS | WITH_A_LIST_OF_INPUTS


def shape(calls: Sequence[Call]) -> tuple[tuple[tuple[int, ...], ...], ...]:
    """The shapes that a rank gave, all tensors of all coalesced calls; the outputs where it gave no input."""
    return tuple(call.input_sizes or call.output_sizes for call in calls)


def common_shape(calls: Sequence[Call]) -> object:
    """What of the shapes that a rank gave is the same on every rank."""
    if all(call.op in ALIKE_ON_EVERY_RANK for call in calls):
        return shape(calls)
    return tuple(_rows(call) for call in calls if call.op in EXCHANGES)


def agreed_shape(calls: Sequence[Call]) -> tuple[tuple[tuple[int, ...], ...], ...]:
    """The same without the numbers of rows that ranks exchange: these may differ."""
    return tuple(_rows(call) if call.op in EXCHANGES else call.input_sizes or call.output_sizes for call in calls)


def dtypes(calls: Sequence[Call]) -> tuple[str, ...]:
    """The dtypes that a rank gave, each once; empty for a call without tensors."""
    return tuple(sorted({name for call in calls for name in (*call.input_dtypes, *call.output_dtypes)}))


def _fit(calls: Mapping[int, tuple[Call, ...]], positions: Mapping[int, int]) -> bool:
    """Whether shapes that differ between ranks belong together nevertheless."""
    return all(
        _fit_one({rank: issued[number] for rank, issued in calls.items()}, positions)
        for number in range(min(map(len, calls.values())))
    )


def _fit_one(calls: Mapping[int, Call], positions: Mapping[int, int]) -> bool:
    name = SAME_NAMES.get(next(iter(calls.values())).op, next(iter(calls.values())).op)
    if name in ALIKE_ON_EVERY_RANK:
        return len({(call.input_sizes, call.output_sizes) for call in calls.values()}) == 1
    if name in WITH_A_LIST_OF_OUTPUTS:
        return _parts_match(
            {rank: call.output_sizes for rank, call in calls.items()},
            {rank: call.input_sizes for rank, call in calls.items()},
            positions,
        )
    if name in WITH_A_LIST_OF_INPUTS:
        return _parts_match(
            {rank: call.input_sizes for rank, call in calls.items()},
            {rank: call.output_sizes for rank, call in calls.items()},
            positions,
        )
    if name in EXCHANGES:
        return _exchanges_match(calls, positions)
    return True  # gather, scatter and what is not known: one rank's sizes say nothing about another's


def _parts_match(
    lists: Mapping[int, tuple[tuple[int, ...], ...]],
    parts: Mapping[int, tuple[tuple[int, ...], ...]],
    positions: Mapping[int, int],
) -> bool:
    """Whether all ranks hold the same list, and each rank's own part is the one at its place in the list.

    A list that is empty is not known; where none is, any parts may belong together.
    """
    known = {whole for whole in lists.values() if whole}
    if len(known) != 1:
        return not known
    (whole,) = known
    if len(whole) == 1 < len(positions) == whole[0][0]:  # gloo's list of outputs is one tensor, a slice a rank
        whole = (whole[0][1:],) * len(positions)
    for rank, part in parts.items():
        place = positions.get(rank)
        if len(part) == 1 and place is not None and place < len(whole) > 1 and prod(part[0]) != prod(whole[place]):
            return False
    return True


def _exchanges_match(calls: Mapping[int, Call], positions: Mapping[int, int]) -> bool:
    """Whether what each rank sends to each other is as large as what that one expects.

    Of one tensor, of which each rank is sent some rows, this shows in the size of a row alone.
    """
    size = len(positions)
    if all(len(call.input_sizes) == len(call.output_sizes) == 1 for call in calls.values()):
        return _rows_match([call.input_sizes[0] for call in calls.values()]) and _rows_match(
            [call.output_sizes[0] for call in calls.values()]
        )
    whole = {positions[rank]: call for rank, call in calls.items() if rank in positions}
    if any(len(call.input_sizes) != size or len(call.output_sizes) != size or size == 1 for call in whole.values()):
        return True
    return all(
        prod(sender.input_sizes[target]) == prod(receiver.output_sizes[source])
        for source, sender in whole.items()
        for target, receiver in whole.items()
    )


def _rows_match(tensors: Sequence[tuple[int, ...]]) -> bool:
    """Whether the rows of these tensors are of one size, apart from tensors without any."""
    return len({prod(sizes[1:]) for sizes in tensors if prod(sizes)}) < 2


def _rows(call: Call) -> tuple[tuple[int, ...], ...]:
    """The shapes of a row of each tensor."""
    return tuple(sizes[1:] for sizes in (*call.input_sizes, *call.output_sizes))
