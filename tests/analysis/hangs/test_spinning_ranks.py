"""A rank that waits for its device uses a whole CPU: what it has completed tells that it waits, not the CPU."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from ddpdoctor.analysis.hangs.rank_activity import Activities
from ddpdoctor.analysis.hangs.stack_patterns import Activity
from ddpdoctor.derivation import derived
from ddpdoctor.engine import diagnose
from ddpdoctor.evidence import Evidence
from ddpdoctor.evidence.frames import Frame
from ddpdoctor.evidence.recorder import FlightRecord
from ddpdoctor.evidence.source import CodePlace, Condition, EarlierCall, Loop, SourceCode
from ddpdoctor.evidence.stacks import Stacks
from ddpdoctor.model import Severity
from tests.flight_records import STEP, record, waits
from tests.hangs import IN_BACKWARD, SCRIPT, hang, rank, stack

SPINS: dict[str, Any] = {"active": True, "state": "R", "cpu_share": 1.0}
AT_ITEM = rank(stack(), **SPINS)
DONE, OPEN = record([STEP, STEP], waited=None), record([STEP, STEP, waits(STEP)])


def place(line: int, *calls: str, loop: Loop | None = None) -> CodePlace:
    return CodePlace(file=SCRIPT, line=line, function="train_step", calls=calls, loops=(loop,) if loop else ())


READS_A_RESULT = SourceCode(places=(place(61, "loss.item"),))
POLLS = SourceCode(places=(place(61, "work.is_completed"), place(62, loop=Loop(line=61, head="while not"))))
COMPUTES = SourceCode(places=(place(61, "step"), place(62, "log", loop=Loop(line=60, head="for"))))


def at_lines(*lines: int) -> tuple[Any, ...]:
    """A rank on a CPU that was at these lines of one function, look after look."""
    stacks, state = rank(stack(user=(lines[-1], "train_step")), moved=len({*lines}) > 1, **SPINS)
    ways = tuple(
        (Frame(file=SCRIPT, line=line, function="train_step"), Frame(file=SCRIPT, line=90, function="<module>"))
        for line in dict.fromkeys(lines)
    )
    assert isinstance(stacks, Stacks)
    return replace(stacks, seen=ways), state


def with_records(*records: FlightRecord, ranks: tuple[Any, ...], **more: Any) -> Evidence:
    return hang(*((*facts, kept) for facts, kept in zip(ranks, records, strict=True)), **more)


def activities(evidence: Evidence) -> list[tuple[Activity, bool | None]]:
    found = derived(evidence, Activities)
    assert found is not None
    return [(activity.kind, activity.moves) for activity in found.each]


def test_a_rank_with_an_outstanding_collective_waits_in_it_though_it_uses_a_cpu() -> None:
    evidence = with_records(OPEN, OPEN, ranks=(AT_ITEM, AT_ITEM))
    assert activities(evidence) == [(Activity.COLLECTIVE, False)] * 2


def test_so_does_one_that_spins_at_the_end_of_its_backward() -> None:
    evidence = with_records(OPEN, OPEN, ranks=(rank(IN_BACKWARD, **SPINS),) * 2)
    assert activities(evidence) == [(Activity.COLLECTIVE, False)] * 2


def test_a_rank_that_its_peers_wait_for_computes() -> None:
    evidence = with_records(OPEN, DONE, ranks=(AT_ITEM, AT_ITEM))
    assert activities(evidence) == [(Activity.COLLECTIVE, False), (Activity.COMPUTING, True)]


def test_of_ranks_that_spin_the_one_that_sleeps_is_named() -> None:
    asleep = rank(stack(user=(70, "rest")), state="S", system_call="clock_nanosleep")
    first = diagnose(with_records(OPEN, OPEN, DONE, ranks=(AT_ITEM, AT_ITEM, asleep))).findings[0]
    assert (first.code, first.ranks) == ("DDP307", (2,))
    assert first.message == "rank 2 in rest (train.py:70) sleeps; ranks 0-1 wait for it in all_reduce for 6.1 s"


@pytest.mark.parametrize(
    ("source", "moves"), [(POLLS, False), (COMPUTES, True)], ids=["asks a call", "does other things"]
)
def test_a_loop_that_asks_a_call_whether_it_is_through_is_one_place(source: SourceCode, moves: bool) -> None:
    evidence = with_records(OPEN, OPEN, ranks=(at_lines(61, 62), at_lines(62, 61)), facts=(source,))
    assert activities(evidence) == [(Activity.COLLECTIVE, moves)] * 2


def test_without_a_recorder_the_line_tells_that_a_rank_waits_for_its_device() -> None:
    asleep = rank(stack(user=(70, "rest")), state="S", system_call="clock_nanosleep")
    evidence = hang(AT_ITEM, AT_ITEM, asleep, facts=(READS_A_RESULT,))
    assert [kind for kind, _ in activities(evidence)] == [Activity.DEVICE, Activity.DEVICE, Activity.SLEEP]
    (found,) = diagnose(evidence).findings
    assert (found.code, found.ranks) == ("DDP307", (2,))
    assert found.message.endswith("ranks 0-1 wait for it in a read from the device for 6.1 s")


LOGS = SourceCode(
    places=(
        replace(place(61, "total.item"), collectives=(EarlierCall(line=60, op="all_reduce"),)),
        CodePlace(file=SCRIPT, line=30, function="main", conditions=(Condition(line=29, test="rank == 1", branch=0),)),
        CodePlace(file=SCRIPT, line=20, function="main"),
    )
)
MAIN = Frame(file=SCRIPT, line=30, function="main")


def test_a_read_from_the_device_behind_a_collective_waits_in_that_collective() -> None:
    above, state = rank(stack(user=(61, "mean")), **SPINS)
    logs = (Frame(file=SCRIPT, line=61, function="train_step"), MAIN)
    trains = (*IN_BACKWARD[:3], replace(MAIN, line=20))
    ranks = tuple(
        (replace(above, threads=(replace(above.main, frames=frames),), seen=((frames[-1],),)), state)
        for frames in (trains, logs, trains)
    )
    (found,) = diagnose(hang(*ranks, seconds=None, facts=(LOGS,))).findings
    assert (found.code, found.ranks) == ("DDP305", (1,))
    assert (found.where[0].rank, found.where[0].line) == (1, 60)


def test_a_line_that_only_computes_tells_nothing_of_a_device() -> None:
    evidence = hang(AT_ITEM, AT_ITEM, facts=(COMPUTES,))
    assert activities(evidence) == [(Activity.COMPUTING, True)] * 2
    assert not diagnose(evidence).findings


def test_a_rank_that_spins_in_backward_is_not_accused_where_its_recorder_did_not_answer() -> None:
    in_backward = rank(IN_BACKWARD, **SPINS)
    evidence = hang((*in_backward, OPEN), in_backward, (*in_backward, OPEN))
    assert activities(evidence) == [(Activity.COLLECTIVE, False)] * 3
    assert "DDP307" not in [found.code for found in diagnose(evidence).findings]


def test_without_a_recorder_a_loop_that_asks_a_collective_waits_in_it() -> None:
    asleep = rank(stack(user=(70, "rest")), state="S", system_call="clock_nanosleep")
    (found,) = diagnose(hang(at_lines(61, 62), asleep, facts=(POLLS,))).findings
    assert (found.code, found.ranks) == ("DDP307", (1,))
    assert found.message.endswith("rank 0 waits for it in is_completed for 6.1 s")


def counting(facts: tuple[Any, ...]) -> tuple[Any, ...]:
    """The same rank, whose functions count."""
    stacks, state = facts
    return replace(stacks, counts=("seen",)), state


IN_A_WHILE = SourceCode(places=(place(61, "net", loop=Loop(line=60, head="while time.time() - begin < 40")),))
ASLEEP: dict[str, Any] = {"system_call": "clock_nanosleep"}
READS_A_PIPE: dict[str, Any] = {"system_call": "read", "waits_on": "a pipe"}


@pytest.mark.parametrize(
    ("odd", "severity"),
    [
        pytest.param(rank(stack(), **SPINS), Severity.FAIL, id="one line"),
        pytest.param(counting(rank(stack(), **SPINS)), Severity.INFO, id="one line, and it counts"),
        pytest.param(counting(at_lines(61, 62)), Severity.INFO, id="two lines, and it counts"),
        pytest.param(rank(stack(), **ASLEEP), Severity.FAIL, id="sleeps"),
        pytest.param(counting(rank(stack(), **ASLEEP)), Severity.FAIL, id="polls, and counts how often"),
        pytest.param(rank(stack(), **READS_A_PIPE), Severity.FAIL, id="nothing comes from the pipe"),
        pytest.param(counting(rank(stack(), **READS_A_PIPE)), Severity.INFO, id="counts what comes from the pipe"),
    ],
)
def test_a_rank_that_counts_is_at_work_though_it_stands_at_one_line(odd: tuple[Any, ...], severity: Severity) -> None:
    (found,) = diagnose(hang(odd, rank(), rank(), facts=(IN_A_WHILE,), seconds=None)).findings
    assert (found.code, found.ranks, found.severity) == ("DDP307", (0,), severity)


@pytest.mark.parametrize(
    ("loop", "severity"),
    [
        (Loop(line=88, head="while not os.path.exists(path)"), Severity.FAIL),
        (Loop(line=88, head="for attempt in itertools.count()"), Severity.FAIL),
        (None, Severity.INFO),
    ],
)
def test_a_rank_that_sleeps_is_at_work_only_where_no_frame_is_in_a_loop(loop: Loop | None, severity: Severity) -> None:
    source = SourceCode(places=(place(3), replace(place(90, loop=loop), function="<module>")))
    asleep = counting(rank(stack(user=(3, "pause")), **ASLEEP))
    (found,) = diagnose(hang(asleep, rank(), rank(), facts=(source,), seconds=None)).findings
    assert (found.code, found.ranks, found.severity) == ("DDP307", (0,), severity)


@pytest.mark.parametrize("counts", [False, True])
def test_a_job_whose_waiting_ranks_count_goes_on(*, counts: bool) -> None:
    """Each looks alike in every step of a pipeline: only the number of the step tells."""
    asleep = rank(stack(), **ASLEEP)
    waits = rank(**SPINS)
    evidence = hang(asleep, counting(waits) if counts else waits, waits, seconds=None)
    assert [found.code for found in diagnose(evidence).findings] == ([] if counts else ["DDP307"])


def test_a_rank_that_counts_how_often_it_asked_a_collective_waits_in_it() -> None:
    evidence = hang(counting(at_lines(61, 62)), counting(at_lines(61, 62)), facts=(POLLS,), seconds=None)
    assert activities(evidence) == [(Activity.COLLECTIVE, False)] * 2
