"""Calls of a dump without stacks (JSON) get the lines that the agent noted, or where the rank is seen to wait."""

from __future__ import annotations

from dataclasses import replace

from ddpdoctor.engine import diagnose
from ddpdoctor.evidence.frames import Frame
from ddpdoctor.evidence.ranks import CollectiveCall, CollectiveCalls
from ddpdoctor.evidence.recorder import FlightRecord
from ddpdoctor.evidence.stacks import Stacks, Thread
from tests.flight_records import STEP, TORCH, TRAIN, Did, flights, record, waits

ALONE = Did("broadcast", line=88, function="validate")


def without_lines(*made: Did) -> FlightRecord:
    whole = record(made)
    return replace(whole, frames=(), stacks=((),), stack=(0,) * len(whole))


def at(line: int, *above: Frame) -> Stacks:
    mine = Frame(file=TRAIN, line=line, function="f")
    return Stacks(source="py-spy", threads=(Thread(name="", frames=(*above, mine), os_id=1, main=True),))


def noted(line: int, seq: int) -> CollectiveCalls:
    place = Frame(file=TRAIN, line=line, function="validate")
    return CollectiveCalls(calls=(CollectiveCall(op="broadcast", group="0", seq=seq, place=place, returned=False),))


def lines(facts: dict[int, list[object]]) -> dict[int | None, int]:
    others = [without_lines(STEP, waits(STEP))] * 3
    job = flights(without_lines(STEP, waits(ALONE)), *others, facts=facts)
    (found,) = diagnose(job).findings
    assert (found.code, found.ranks) == ("DDP301", (0,))
    return {where.rank: where.line for where in found.where}


def test_a_rank_that_waits_in_a_collective_shows_the_line_of_its_last_call() -> None:
    assert lines({0: [at(88, TORCH)], 1: [at(61, TORCH)]}) == {0: 88, 1: 61}


def test_a_rank_that_is_elsewhere_by_now_shows_nothing() -> None:
    assert lines({0: [at(99)], 1: [at(61, TORCH)]}) == {1: 61}


def test_what_the_agent_noted_counts_for_the_call_with_that_number() -> None:
    assert lines({0: [noted(88, seq=2)], 1: [noted(61, seq=1)]}) == {0: 88}
