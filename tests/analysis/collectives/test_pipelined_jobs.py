"""Pipelines over gloo: the recorder holds their collectives, and the agent alone their sends and receives."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import pytest

from ddpdoctor.engine import diagnose
from ddpdoctor.evidence.frames import Frame
from ddpdoctor.evidence.ranks import CollectiveCall, CollectiveCalls, GroupMembers
from ddpdoctor.model import Finding
from tests.flight_records import START_NS, TRAIN, Did, flights, record

STAGES = {"1": (0, 1), "2": (2, 3)}
PIPES = {"3": (0, 2), "4": (1, 3)}
SEND, RECV_GRADIENT, RECV, SEND_GRADIENT, SYNC, END = 25, 27, 31, 38, 47, 59
STEPS, ODD_STEP, MICRO_BATCHES = 8, 5, 3
NS = 1_000_000


@dataclass(frozen=True)
class Made:
    """A call of a rank: `peer` of a send or receive, the members of the group of a collective."""

    op: str
    line: int
    group: str
    members: tuple[int, ...]
    peer: int | None = None
    tag: int = 0


def step_of(rank: int, *, without: int = 0, tag: int = 0) -> list[Made]:
    """One step; in its second micro batch it lacks the call of line `without`, or gives its sends the tag."""
    first = rank < 2
    name, members = next((name, ranks) for name, ranks in PIPES.items() if rank in ranks)
    peer = rank + 2 if first else rank - 2
    lines = ((SEND, "send"), (RECV_GRADIENT, "recv")) if first else ((RECV, "recv"), (SEND_GRADIENT, "send"))
    made = [
        Made(op, line, name, members, peer=peer, tag=tag if op == "send" else 0)
        for micro_batch in range(MICRO_BATCHES)
        for line, op in lines
        if (micro_batch, line) != (1, without)
    ]
    stage, replicas = next((name, ranks) for name, ranks in STAGES.items() if rank in ranks)
    return [*made, *([Made("all_reduce", SYNC, stage, replicas)] * (2 if without != SYNC else 0))]


def job(odd: int, *, without: int = 0, tag: int = 0, stays_away: bool = False) -> list[list[Made]]:
    """The program of each rank; rank `odd` does something else in one step."""
    programs: list[list[Made]] = []
    for rank in range(4):
        steps = [step_of(rank) for _ in range(STEPS)]
        if rank == odd:
            steps[ODD_STEP] = step_of(rank, without=without, tag=tag)
        if rank == odd and stays_away:
            steps = steps[:ODD_STEP]
        end = [] if rank == odd and stays_away else [Made("barrier", END, "0", (0, 1, 2, 3))]
        programs.append([made for step in steps for made in step] + end)
    return programs


def findings(programs: Sequence[Sequence[Made]]) -> list[Finding]:
    """What a run of these programs is judged to be, in which each call waits for its partners."""
    at = [0] * 4
    time = 0
    began: list[list[int]] = [[] for _ in programs]

    def current(rank: int) -> Made | None:
        return programs[rank][at[rank]] if at[rank] < len(programs[rank]) else None

    def partners(rank: int, made: Made) -> tuple[int, ...]:
        return made.members if made.peer is None else (rank, made.peer)

    def ready(rank: int, made: Made) -> bool:
        if made.peer is None:
            return all((one := current(other)) is not None and one.group == made.group and one.peer is None
                       for other in made.members)  # fmt: skip
        other = current(made.peer)
        return (
            other is not None
            and (other.peer, other.group, other.tag) == (rank, made.group, made.tag)
            and ({made.op, other.op} == {"send", "recv"})
        )

    moved = True
    while moved:
        moved = False
        for rank in range(4):
            made = current(rank)
            if made is not None and len(began[rank]) == at[rank]:
                time += NS
                began[rank].append(START_NS + time)
            if (
                made is not None
                and all(len(began[one]) > at[one] for one in partners(rank, made))
                and ready(rank, made)
            ):
                for one in partners(rank, made):
                    at[one] += 1
                moved = True
    return judged(programs, at, began)


def judged(programs: Sequence[Sequence[Made]], at: Sequence[int], began: Sequence[Sequence[int]]) -> list[Finding]:
    records, facts = [], {}
    for rank, program in enumerate(programs):
        own = [(number, program[number], when) for number, when in enumerate(began[rank])]
        collectives = [(number, made, when) for number, made, when in own if made.peer is None]
        dids = [
            Did(
                made.op, line=made.line, function="main", group=made.group, members=made.members, done=number < at[rank]
            )
            for number, made, _ in collectives
        ]
        found = record(dids, backend="gloo")
        records.append(replace(
            found, created_ns=tuple(when for _, _, when in collectives), taken_at=START_NS / 1e9 + 60
        ))  # fmt: skip
        transfers = [(number, made, when) for number, made, when in own if made.peer is not None]
        facts[rank] = [
            CollectiveCalls(
                calls=tuple(
                    CollectiveCall(
                        op=made.op, group=made.group, seq=nth, peer=made.peer, tag=made.tag,
                        place=Frame(file=TRAIN, line=made.line, function="main"), returned=number < at[rank], began_ns=when,
                    )
                    for nth, (number, made, when) in enumerate(transfers, start=1)
                ),
                groups=tuple(
                    GroupMembers(group=name, ranks=ranks) for name, ranks in {**STAGES, **PIPES}.items() if rank in ranks
                ),
            )
        ]  # fmt: skip
    found_in = diagnose(flights(*records, backend="gloo", facts=facts)).findings
    return [one for one in found_in if one.explained_by is None]


@pytest.mark.parametrize(("odd", "line"), [(0, SEND), (1, SEND), (2, SEND_GRADIENT), (3, SEND_GRADIENT)])
def test_a_send_that_one_replica_left_out_is_named_with_its_line(odd: int, line: int) -> None:
    (finding,) = findings(job(odd, without=line))
    assert (finding.code, finding.ranks) == ("DDP313", (odd,))
    assert (finding.where[0].rank, finding.where[0].line) == (odd, line)


@pytest.mark.parametrize("odd", [0, 1, 2, 3])
def test_a_reduction_that_one_of_two_replicas_left_out_is_told_by_what_it_always_did(odd: int) -> None:
    (finding,) = findings(job(odd, without=SYNC))
    assert (finding.code, finding.ranks) == ("DDP305", (odd,))
    assert (finding.where[0].rank, finding.where[0].line) == (odd, SYNC)
    assert f"as did rank {odd} before" in " ".join(finding.details)


@pytest.mark.parametrize("odd", [0, 3])
def test_a_rank_that_is_in_no_call_keeps_all_others(odd: int) -> None:
    (finding,) = findings(job(odd, stays_away=True))
    assert (finding.code, finding.ranks) == ("DDP307", (odd,))


def test_a_send_with_another_tag_has_no_receive() -> None:
    (finding,) = findings(job(1, tag=7))
    assert finding.code == "DDP313"
    assert "with tag 7" in finding.message


def test_a_pipeline_that_is_through_is_no_finding() -> None:
    assert findings(job(-1)) == []
