"""The flight record of a rank that could not hand its recorder out: from the call ring that it wrote as it went.

A rank that was killed, or that native code aborted, takes its recorder with it. The call ring has what the user's own code
called, not what DistributedDataParallel calls in C++: those calls are gaps.
"""

from __future__ import annotations

from collections.abc import Sequence

from ddpdoctor.agent.inside.schema.call_ring import NO_SEQ, Collective
from ddpdoctor.agent.inside.schema.call_texts import Group, TensorSpec
from ddpdoctor.evidence.frames import Frame
from ddpdoctor.evidence.recorder import Call, FlightRecord, ProcessGroup, State
from ddpdoctor.ranks.call_texts_reader import Texts
from ddpdoctor.ranks.fr_groups import description_of

DTYPES = {
    "float32": "Float", "float64": "Double", "float16": "Half", "bfloat16": "BFloat16", "int64": "Long", "int32": "Int",
    "int16": "Short", "int8": "Char", "uint8": "Byte", "bool": "Bool", "complex64": "ComplexFloat",
    "complex128": "ComplexDouble",
}  # fmt: skip
WITHOUT_TENSORS = ("barrier",)
OF_GLOO = {  # gloo has no calls of their own for these
    "all_gather_single": "all_gather", "all_gather_into_tensor": "all_gather",
    "reduce_scatter_single": "all_reduce", "reduce_scatter_tensor": "all_reduce",
}  # fmt: skip
AS_LARGE_AS_INPUTS = ("all_reduce", "broadcast", "reduce")  # of the other outputs nothing is known


def record_from(records: Sequence[Collective], texts: Texts) -> FlightRecord | None:
    """The numbered calls among `records`; None where there is none.

    Calls whose tensors the ring does not describe are left out: as gaps they are compared with nothing.
    """
    groups: dict[ProcessGroup, int] = {}
    calls: dict[Call, int] = {}
    stacks: dict[tuple[Frame, ...], int] = {(): 0}
    frames: dict[Frame, int] = {}
    columns: list[tuple[Collective, int, int]] = []
    for record in records:
        call = _call(record, texts, groups) if record.seq != NO_SEQ else None
        if call is not None:
            stack = stacks.setdefault(texts.stack(record.place), len(stacks))
            columns.append((record, calls.setdefault(call, len(calls)), stack))
    if not columns:
        return None
    return FlightRecord(
        version="2.0",
        groups=tuple(groups),
        calls=tuple(calls),
        stacks=tuple(tuple(frames.setdefault(frame, len(frames)) for frame in stack) for stack in stacks),
        frames=tuple(frames),
        call=tuple(call for _, call, _ in columns),
        seq=tuple(record.seq for record, _, _ in columns),
        stack=tuple(stack for _, _, stack in columns),
        state=tuple(State.DONE if record.returned_ns else State.SCHEDULED for record, _, _ in columns),
        created_ns=tuple(record.began_ns for record, _, _ in columns),
        completed_ns=tuple(record.returned_ns for record, _, _ in columns),
    )


def _call(record: Collective, texts: Texts, groups: dict[ProcessGroup, int]) -> Call | None:
    op, group, tensor = texts.op(record.op), texts.get(Group, record.group), texts.get(TensorSpec, record.tensor)
    if group is None or (tensor is None and (record.tensor or op not in WITHOUT_TENSORS)):
        return None
    known = ProcessGroup(
        backend=group.backend, name=group.name, description=description_of(group.description), ranks=group.ranks or None
    )
    op = OF_GLOO.get(op, op) if group.backend == "gloo" else op
    sizes = (tensor.shape,) if tensor is not None else ()
    dtypes = (DTYPES.get(tensor.dtype, tensor.dtype),) if tensor is not None else ()
    return Call(
        group=groups.setdefault(known, len(groups)),
        op=op,
        input_sizes=sizes,
        input_dtypes=dtypes,
        output_sizes=sizes if op in AS_LARGE_AS_INPUTS else (),
        output_dtypes=dtypes,
    )
