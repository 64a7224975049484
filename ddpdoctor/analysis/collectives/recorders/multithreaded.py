"""Whether the collectives of one group come from several threads of a rank in turns: then chance decides their order."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

from ddpdoctor.evidence.recorder import FlightRecord, ProcessGroup

IN_TURNS = 4  # changes from one thread to the other; a program that trains in a thread of its own changes once or twice


def groups_in_turns(record: FlightRecord) -> Iterator[ProcessGroup]:
    """The groups in which the main thread and another one of this rank made their calls in turns.

    A rank that was killed leaves only the calls that its own code made. Those of its gradients, of the thread that trains,
    are missing between two numbers.
    """
    threads = {number for number, stack in enumerate(record.stacks) if began_in_a_thread(record, stack)}
    for number, group in enumerate(record.groups) if threads else ():
        issued = [
            (seq, stack in threads)
            for call, seq, stack in zip(record.call, record.seq, record.stack, strict=True)
            if record.calls[call].group == number and not record.calls[call].point_to_point
        ]
        changes = sum(one != other or (one and later > seq + 1) for (seq, one), (later, other) in pairwise(issued))
        if changes >= IN_TURNS:
            yield group


def has_both(record: FlightRecord, group: str) -> bool:
    """Whether the main thread and another one of this rank both made calls of the group with this name."""
    made = {
        began_in_a_thread(record, record.stacks[stack])
        for call, stack in zip(record.call, record.stack, strict=True)
        if record.groups[record.calls[call].group].name == group and record.stacks[stack]
    }
    return len(made) > 1


def called_in_turns(record: FlightRecord, group: str) -> bool:
    """Whether two threads of this rank made the calls of the group with this name in turns."""
    return any(one.name == group for one in groups_in_turns(record))


def made_by_a_thread(record: FlightRecord, entry: int) -> bool:
    """Whether another thread than the main one made this call."""
    return began_in_a_thread(record, record.stacks[record.stack[entry]])


def began_in_a_thread(record: FlightRecord, stack: tuple[int, ...]) -> bool:
    """Whether the outermost line of this stack is the one with which Python begins a thread."""
    if not stack:
        return False
    outermost = record.frames[stack[-1]]
    return outermost.function == "_bootstrap" and outermost.file.endswith("/threading.py")
