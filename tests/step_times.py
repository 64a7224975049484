"""Ranks that come to their steps at chosen times: flight records and the marks of their iterations."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from ddpdoctor.evidence import Evidence
from ddpdoctor.evidence.frames import Frame
from ddpdoctor.evidence.step_times import Pace, ProcessorTime
from tests.flight_records import START_NS, STEP, TRAIN, flights, record

FORWARD = Frame(file=TRAIN, line=60, function="train_step")
MS = 1_000_000


def steps(*slow: Callable[[int], dict[str, int]], count: int = 40, further: int = 0) -> Evidence:
    """A job on one host whose rank N needs `slow[N](step)` milliseconds more in the parts of a step that it names.

    Parts are `input` (waiting for the batch), `batch` (between batch and forward), `forward` (and backward). Every step ends
    when the last rank has made its collective, and `further` ones behind it, into which the ranks come last in turns.
    """
    made: list[list[int]] = [[] for _ in slow]
    marks: list[dict[str, list[int]]] = [{"asked": [], "drawn": [], "forward": []} for _ in slow]
    begin = START_NS
    for step in range(count):
        for rank, extra in enumerate(slow):
            more = extra(step)
            asked = begin + 1 * MS
            drawn = asked + (2 + more.get("input", 0)) * MS
            forward = drawn + (1 + more.get("batch", 0)) * MS
            marks[rank]["asked"].append(asked)
            marks[rank]["drawn"].append(drawn)
            marks[rank]["forward"].append(forward)
            made[rank].append(forward + (16 + more.get("forward", 0)) * MS)
        begin = max(times[-1] for times in made) + MS
        for number in range(further):
            for rank, times in enumerate(made):
                times.append(begin + (MS // 10 if rank == number % len(made) else 0))
            begin += MS
    return flights(
        *(
            replace(record([STEP] * len(times), waited=None, world=len(slow)), created_ns=tuple(times))
            for times in made
        ),
        facts={
            rank: [
                Pace(
                    asked_ns=tuple(each["asked"]),
                    drawn_ns=tuple(each["drawn"]),
                    forward_ns=tuple(each["forward"]),
                    forward=FORWARD,
                )
            ]
            for rank, each in enumerate(marks)
        },
    )


def with_processor_time(evidence: Evidence, *times: ProcessorTime) -> Evidence:
    """The same job, whose rank N had a processor as `times[N]` says."""
    ranks = tuple(replace(facts, facts=(*facts.facts, time)) for facts, time in zip(evidence.ranks, times, strict=True))
    return replace(evidence, ranks=ranks)


def majority(_step: int) -> dict[str, int]:
    """A rank that needs nothing more than the others."""
    return {}
