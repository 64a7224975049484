"""A look at a running job that makes its steps: whether a rank, or its data, keeps the others waiting, and where."""

from __future__ import annotations

import contextlib
import time
from collections import Counter
from collections.abc import Mapping, Sequence

from ddpdoctor.agent.inside.recorder_socket import CALLS
from ddpdoctor.analysis.hangs.stack_patterns import WAITS_FOR_PEERS, activity_in_stack
from ddpdoctor.engine import diagnose
from ddpdoctor.errors import UndecidedError
from ddpdoctor.evidence import Evidence, RankFacts
from ddpdoctor.evidence.frames import Frame, users_frame
from ddpdoctor.evidence.recorder import FlightRecord
from ddpdoctor.evidence.step_times import Looks, ProcessorTime
from ddpdoctor.ranks.agent_client import NoAnswer, ask_agent
from ddpdoctor.ranks.agent_files import RankProcess
from ddpdoctor.ranks.fr_dump_files import decode
from ddpdoctor.ranks.fr_parser import record_of
from ddpdoctor.ranks.stacks import NoStacks, py_spy

CODES = ("DDP601", "DDP602")
ANSWER_SECONDS = 3.0
LOOKS = 12  # at a rank that was found to be slow; each pauses it for some milliseconds
LOOK_SECONDS = 0.15  # between two of them, and out of step with any loop by what py-spy takes


def slow_job(ranks: Sequence[RankProcess], host: str, times: Mapping[int, ProcessorTime]) -> Evidence | None:
    """What is known of the pace of these ranks if that is slow, with looks at the slowest; None where nothing is wrong."""
    evidence = pace_of(ranks, host, times)
    slow = slow_ranks(evidence)
    if not slow:
        return None
    looks = {agent.rank: _looks(agent.pid) for agent in ranks if agent.rank in slow}
    return evidence.with_facts(looks)


def pace_of(ranks: Sequence[RankProcess], host: str, times: Mapping[int, ProcessorTime]) -> Evidence:
    """What is known of the pace of these ranks: their recorders, their call logs, and their processor times by rank."""
    facts = tuple(
        RankFacts(rank=agent.rank, host=host, facts=tuple(fact for fact in found if fact is not None))
        for agent in ranks
        for found in [(_record(agent), agent.call_log().pace(), times.get(agent.rank))]
    )
    return Evidence(ranks=facts, about_job=True)


def slow_ranks(evidence: Evidence) -> set[int]:
    """The rank that each finding names first; empty where nothing is wrong."""
    findings = diagnose(evidence, select=CODES).findings
    return {rank for finding in findings for rank in finding.ranks[:1]}


def _record(agent: RankProcess) -> FlightRecord | None:
    """Its recorder without stacks, for which its interpreter pauses about 50 ms; None where it does not answer."""
    with contextlib.suppress(NoAnswer, UndecidedError):
        return record_of(decode(ask_agent(agent.file("ask"), CALLS, deadline_seconds=ANSWER_SECONDS)))
    return None


def _looks(pid: int) -> Looks:
    seen: Counter[Frame] = Counter()
    made = 0
    for _ in range(LOOKS):
        with contextlib.suppress(NoStacks):
            frames = next((thread.frames for thread in py_spy(pid) if thread.main), ())
            told = activity_in_stack(frames)
            place = users_frame(frames)
            made += 1
            if place is not None and (told is None or told[0] not in WAITS_FOR_PEERS):
                seen[place] += 1
        time.sleep(LOOK_SECONDS)
    places = seen.most_common()
    return Looks(of=made, places=tuple(place for place, _ in places), times=tuple(times for _, times in places))
