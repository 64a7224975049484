"""The flight record of a rank that could not hand its recorder out: from the strip that it wrote as it went.

A rank that was killed, or that native code aborted, takes its recorder with it. The strip knows what the user's own code
called, not what DistributedDataParallel calls in C++: those calls are gaps.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ddpdoctor.agent.inside.strip import NO_SEQ, Record
from ddpdoctor.evidence.frames import Frame
from ddpdoctor.evidence.recorder import Call, FlightRecord, Group, State

DTYPES = {
    "float32": "Float", "float64": "Double", "float16": "Half", "bfloat16": "BFloat16", "int64": "Long", "int32": "Int",
    "int16": "Short", "int8": "Char", "uint8": "Byte", "bool": "Bool", "complex64": "ComplexFloat",
    "complex128": "ComplexDouble",
}  # fmt: skip
WITHOUT_TENSORS = ("barrier",)
WITH_OTHER_OUTPUTS = ("all_gather",)  # a list of which nothing is known

Names = Mapping[int, tuple[str | int, ...]]


def record_from(records: Sequence[Record], names: Names, lines: Sequence[tuple[Frame, ...]]) -> FlightRecord | None:
    """The numbered calls among `records`, whose stacks are `lines`, innermost first; None where there is none.

    Calls whose tensors the strip does not describe are left out: as gaps they are compared with nothing.
    """
    groups: dict[Group, int] = {}
    calls: dict[Call, int] = {}
    stacks: dict[tuple[Frame, ...], int] = {(): 0}
    frames: dict[Frame, int] = {}
    columns: list[tuple[Record, int, int]] = []
    for record, stack in zip(records, lines, strict=True):
        call = _call(record, names, groups) if record.seq != NO_SEQ else None
        if call is not None:
            columns.append((record, calls.setdefault(call, len(calls)), stacks.setdefault(stack, len(stacks))))
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
    )


def _call(record: Record, names: Names, groups: dict[Group, int]) -> Call | None:
    op = str(names.get(record.op, ("", ""))[-1])
    sizes: tuple[tuple[int, ...], ...]
    dtypes: tuple[str, ...]
    match names.get(record.group), names.get(record.tensors):
        case ("group", str(name), str(description), str(backend)), ("tensor", str(shape), str(dtype)):
            sizes = (tuple(int(size) for size in shape.split(",") if size),)
            dtypes = (DTYPES.get(dtype, dtype),)
        case ("group", str(name), str(description), str(backend)), None if op in WITHOUT_TENSORS:
            sizes, dtypes = (), ()
        case _:
            return None
    group = groups.setdefault(Group(backend=backend, name=name, description=description), len(groups))
    out = () if op in WITH_OTHER_OUTPUTS else sizes
    return Call(group=group, op=op, input_sizes=sizes, input_dtypes=dtypes, output_sizes=out, output_dtypes=dtypes)
