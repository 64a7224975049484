"""A look at a running job that makes its steps: whether a rank, or its data, keeps the others waiting, and where."""

from __future__ import annotations

import contextlib
import time
from collections import Counter
from collections.abc import Mapping, Sequence

from ddpdoctor.agent.inside.process.recorder_socket import CALLS
from ddpdoctor.analysis.hangs.stack_patterns import WAITS_FOR_PEERS, Activity, activity_in_stack
from ddpdoctor.engine import diagnose
from ddpdoctor.errors import UndecidedError
from ddpdoctor.evidence import Evidence, RankFacts
from ddpdoctor.evidence.frames import Frame, in_worker_loop, lines_in_worker, users_frame
from ddpdoctor.evidence.recorder import FlightRecord
from ddpdoctor.evidence.stacks import Thread
from ddpdoctor.evidence.step_times import Looks, ProcessorTime
from ddpdoctor.host.processes import loader_workers
from ddpdoctor.ranks.agent_client import NoAnswer, ask_agent
from ddpdoctor.ranks.agent_files import RankProcess
from ddpdoctor.ranks.fr_dump_files import decode
from ddpdoctor.ranks.fr_parser import record_of
from ddpdoctor.ranks.stacks import NoStacks, py_spy, py_spy_each

CODES = ("DDP601", "DDP602")
ANSWER_SECONDS = 3.0
LOOKS = 12  # at a rank that was found to be slow; each pauses it for some milliseconds
MOST_WORKERS = 4  # of a rank's loaders that are looked at each time
LOOK_SECONDS = 0.15  # between two of them, and out of step with any loop by what py-spy takes


def slow_job(ranks: Sequence[RankProcess], host: str, times: Mapping[int, ProcessorTime]) -> Evidence | None:
    """What is known of the pace of these ranks if that is slow, with looks at the slowest; None where nothing is wrong."""
    evidence = pace_of(ranks, host, times)
    slow = slow_ranks(evidence)
    if not slow:
        return None
    looks = {agent.rank: looks_at(agent.pid) for agent in ranks if agent.rank in slow}
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


def looks_at(pid: int) -> Looks:
    """Where a rank is at a few moments; where the workers of its data loaders are, while it waits for them."""
    seen: Counter[Frame] = Counter()
    made = 0
    for _ in range(LOOKS):
        with contextlib.suppress(NoStacks):
            frames = _main(py_spy(pid))
            activity = activity_in_stack(frames)
            made += 1
            if activity is not None and activity[0] is Activity.DATA_LOADER and (lines := _lines_of_workers(pid)):
                seen.update(lines)
            elif (place := users_frame(frames)) is not None and (
                activity is None or activity[0] not in WAITS_FOR_PEERS
            ):
                seen[place] += 1
        time.sleep(LOOK_SECONDS)
    places = seen.most_common()
    return Looks(of=made, places=tuple(place for place, _ in places), times=tuple(times for _, times in places))


def _lines_of_workers(pid: int) -> set[Frame]:
    """The user's lines at which the workers of this rank's data loaders make batches; none of workers that wait for work."""
    read = py_spy_each(loader_workers(pid)[:MOST_WORKERS])
    stacks = (_main(threads) for threads in read.values() if not isinstance(threads, NoStacks))
    return {line for stack in stacks if in_worker_loop(stack) for line in lines_in_worker(stack)[-1:]}


def _main(threads: Sequence[Thread]) -> tuple[Frame, ...]:
    return next((thread.frames for thread in threads if thread.main), ())
