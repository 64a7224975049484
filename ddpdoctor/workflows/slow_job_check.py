"""A look at a running job that makes its steps: whether a rank, or its data, keeps the others waiting, and where."""

from __future__ import annotations

import contextlib
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TypeAlias

import msgspec

from ddpdoctor.agent.inside.process.recorder_socket import CALLS
from ddpdoctor.analysis.hangs.stack_patterns import WAITS_FOR_PEERS, Activity, activity_in_stack
from ddpdoctor.engine import diagnose
from ddpdoctor.errors import UndecidedError
from ddpdoctor.evidence import Evidence, RankFacts
from ddpdoctor.evidence.frames import Frame, in_worker_loop, lines_in_worker, users_frames
from ddpdoctor.evidence.recorder import FlightRecord
from ddpdoctor.evidence.step_times import Looks, ProcessorTime
from ddpdoctor.host.processes import loader_workers
from ddpdoctor.json_errors import JSON_ERRORS
from ddpdoctor.ranks.agent_client import NoAnswer, ask_agent
from ddpdoctor.ranks.agent_files import RankProcess, find_ranks
from ddpdoctor.ranks.fr_dump_files import decode
from ddpdoctor.ranks.fr_parser import record_of
from ddpdoctor.ranks.stack_samples import Samples, samples_of

LOOKS_FILE = "looks.json"
CODES = ("DDP601", "DDP602")
ANSWER_SECONDS = 3.0
MOST_WORKERS = 4  # of a rank's loaders that are looked at
EVERYWHERE = 0.9  # of the samples: a line that so many have, as the call of `main`, is not where a rank loses its time

Stack: TypeAlias = tuple[Frame, ...]
"""The user's lines on a stack, outermost first."""


def look_at_slow_ranks(directory: Path, host: str, times: Mapping[int, ProcessorTime]) -> bool:
    """Whether a rank, or its data, keeps the others waiting; samples of those ranks' stacks then stand in `directory`."""
    ranks = find_ranks(directory)
    slow = slow_ranks(pace_of(ranks, host, times))
    looks = {agent.rank: looks_at(agent.pid) for agent in ranks if agent.rank in slow}
    (directory / LOOKS_FILE).write_bytes(msgspec.json.encode(looks))
    return bool(slow)


def looks_in(directory: Path) -> dict[int, Looks]:
    """What `look_at_slow_ranks` saw of each rank."""
    with contextlib.suppress(OSError, *JSON_ERRORS):
        return msgspec.json.decode((directory / LOOKS_FILE).read_bytes(), type=dict[int, Looks])
    return {}


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
    """Where a rank is at many moments; where the workers of its data loaders are, while it waits for them."""
    of_rank, *of_workers = samples_of([pid, *loader_workers(pid)[:MOST_WORKERS]])
    made = Counter[Stack]()  # by the workers: each stack as often as the worker that is there the most often
    for samples in of_workers:
        made |= _work_of_worker(samples, of_rank.total())
    seen = Counter[Stack]()
    waits = 0
    for stack, times in of_rank.items():
        activity = activity_in_stack(stack)
        if made and activity is not None and activity[0] is Activity.DATA_LOADER:
            waits += times
        elif (lines := users_frames(stack)) and (activity is None or activity[0] not in WAITS_FOR_PEERS):
            seen[lines] += times
    seen.update({lines: min(times, waits) for lines, times in made.items() if waits})
    places = _places(seen, of_rank.total())
    return Looks(of=of_rank.total(), places=tuple(places), times=tuple(places.values()))


def _places(seen: Mapping[Stack, int], of: int) -> dict[Frame, int]:
    """The lines at which these stacks end, the most frequent first; before them the line below which most of them spread.

    That is the call of a function that has no line where most of them end. It is none which nearly all samples have.
    """
    ends = Counter[Frame]()
    for lines, times in seen.items():
        ends[lines[-1]] += times
    call, depth = dict[Frame, int](), 0
    while True:
        below = Counter[Frame]()
        for lines, times in seen.items():
            if len(lines) > depth:
                below[lines[depth]] += times
        most = below.most_common(1)
        if not most or 2 * most[0][1] < sum(seen.values()):
            break
        line, times = most[0]
        seen = {lines: times for lines, times in seen.items() if lines[depth : depth + 1] == (line,)}
        depth, call = depth + 1, {line: times}
    first = {line: times for line, times in call.items() if times < EVERYWHERE * of}
    return {**first, **{line: times for line, times in ends.most_common() if line not in first}}


def _work_of_worker(samples: Samples, of: int) -> Counter[Stack]:
    """The user's lines in which a loader's worker makes batches, as often as in `of` samples; none where it waits for work."""
    work = Counter[Stack]()
    for stack, times in samples.items():
        if in_worker_loop(stack) and (lines := lines_in_worker(stack)):
            work[lines] += times
    return Counter({lines: round(times * of / samples.total()) for lines, times in work.items()})
