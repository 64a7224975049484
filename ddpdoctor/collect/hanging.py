"""A job that is stuck right now and that nobody prepared: looked at from outside, with what it wrote itself."""

from __future__ import annotations

import re
import socket
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import psutil

from ddpdoctor.analysis.doing import Doing
from ddpdoctor.analysis.doing import derive as doings_of
from ddpdoctor.collect import ras
from ddpdoctor.collect.dumps import read_dump
from ddpdoctor.collect.jobs import Job
from ddpdoctor.collect.live import examine
from ddpdoctor.collect.processes import started_at
from ddpdoctor.collect.source import source_of
from ddpdoctor.errors import UndecidedError
from ddpdoctor.evidence import Evidence, Missing, RankFacts
from ddpdoctor.evidence.process import ProcessState
from ddpdoctor.evidence.ranks import JobSize
from ddpdoctor.evidence.recorder import FlightRecord
from ddpdoctor.evidence.stacks import Stacks
from ddpdoctor.model import group_ranks

LOOK_SECONDS = 2.0  # between two looks: longer than a step of most jobs, so that one that goes on is seen to move
DUMP_PREFIX = "/tmp/nccl_trace_rank_"  # noqa: S108 - PyTorch's own default for TORCH_FR_DUMP_TEMP_FILE


def look(job: Job) -> Evidence:
    """What every rank of `job` on this host is doing."""
    host = socket.gethostname()
    facts, missing = examine(job.targets, host=host, seconds=LOOK_SECONDS)
    facts = tuple(_with_dump(found, job) for found in facts)
    having = {found.rank for found in facts if any(isinstance(fact, FlightRecord) for fact in found.facts)}
    frames = [
        frame
        for found in facts
        for fact in found.facts
        if isinstance(fact, Stacks)
        for thread in fact.threads
        for frame in thread.frames
    ]
    source = source_of(frames)
    evidence = Evidence(
        job=(*((source,) if source is not None else ()), JobSize(ranks=job.world_size)),
        ranks=facts,
        missing=tuple(lost for lost in missing if lost.kind != FlightRecord.__name__ or lost.rank not in having),
        about_job=True,
    )
    unread, seen = tuple(_unread(missing)), _seen(facts)
    return replace(
        evidence,
        notes=(*_activities(evidence), *_ended(missing), *_not_here(job), *(unread if seen else ()), *_ras(job)),
        undecided=() if seen else unread,
    )


def unexplained(evidence: Evidence) -> tuple[str, ...]:
    """That every rank here waits for others and none moved between two looks, where that is so."""
    processes, size = evidence.per_rank(ProcessState), evidence.one(JobSize)
    doings = doings_of(processes, evidence.per_rank(Stacks), None).each if processes is not None else ()
    if not doings or not all(doing.waits_for_peers and doing.stands_still for doing in doings):
        return ()
    if size is not None and len(doings) < size.ranks:
        return ("every rank on this host waits for others: what keeps them waiting is not here",)
    still = f"every rank waits for others, none moved for {LOOK_SECONDS:.0f} s, and their stacks do not say why"
    return (f"{still}: under `ddpdoctor watch` the job would tell what each rank has called",)


def _seen(facts: tuple[RankFacts, ...]) -> bool:
    """Whether anything but the states of processes is known: without stacks and recorders nothing can be said."""
    return any(isinstance(fact, Stacks | FlightRecord) for found in facts for fact in found.facts)


def _activities(evidence: Evidence) -> Iterator[str]:
    """`ranks 0-1,3 wait in backward at /job/train.py:61, on CPU 0 %`: ranks together that do the same."""
    processes = evidence.per_rank(ProcessState)
    if processes is None:
        return
    groups: dict[str, list[Doing]] = {}
    for doing in doings_of(processes, evidence.per_rank(Stacks), None).each:
        if doing.process is None:
            continue  # it ended between two looks
        operation = f" ({doing.operation})" if doing.operation and doing.waits_for_peers else ""
        place = f" at {doing.place.file}:{doing.place.line} in {doing.place.function}" if doing.place else ""
        groups.setdefault(f"{doing.told}{operation}{place}", []).append(doing)
    for text, doings in groups.items():
        shares = [share for doing in doings if doing.process and (share := doing.process.cpu_share) is not None]
        cpu = f", on CPU {100 * max(shares):.0f} %" if shares else ""
        pids = ", ".join(str(doing.process.pid) for doing in doings[:8] if doing.process)
        yield f"{group_ranks([doing.rank for doing in doings])}: {text}{cpu} (process {pids})"


def _not_here(job: Job) -> Iterator[str]:
    absent = {*range(job.world_size)} - {target.rank for target in job.targets}
    if absent:
        yield f"{group_ranks([*absent])} of {job.world_size} do not run on this host: run `ddpdoctor hang` where they do"
    if job.guessed:
        yield "the ranks are numbered by the age of their processes, as mp.spawn starts them in order"


def _ended(missing: tuple[Missing, ...]) -> Iterator[str]:
    for lost in missing:
        if lost.kind == ProcessState.__name__ and lost.rank is not None:
            yield f"rank {lost.rank} has ended while it was looked at: {lost.reason}"


def _unread(missing: tuple[Missing, ...]) -> Iterator[str]:
    """Why there are no stacks: once for all ranks that differ in nothing but the number of their process."""
    reasons: dict[str, tuple[str, list[int]]] = {}
    for lost in missing:
        if lost.kind == Stacks.__name__ and lost.rank is not None:
            kind = re.sub(r"\bprocess \d+\b", "process", lost.reason)
            reasons.setdefault(kind, (lost.reason, []))[1].append(lost.rank)
    for reason, ranks in reasons.values():
        yield f"no stacks of {group_ranks(ranks)}: {reason}"


def _with_dump(found: RankFacts, job: Job) -> RankFacts:
    """The rank's facts with the flight recorder that its own watchdog has dumped, where it is of this run."""
    if any(isinstance(fact, FlightRecord) for fact in found.facts):
        return found
    prefix = job.environ.get("TORCH_FR_DUMP_TEMP_FILE") or job.environ.get("TORCH_NCCL_DEBUG_INFO_TEMP_FILE")
    path = Path(f"{prefix or DUMP_PREFIX}{found.rank}")
    pid = next(target.pid for target in job.targets if target.rank == found.rank)
    try:
        if path.stat().st_mtime < (started_at(pid) or 0):
            return found
        return replace(found, facts=(*found.facts, read_dump(path).record))
    except (OSError, UndecidedError):
        return found


def _ras(job: Job) -> Iterator[str]:
    """What NCCL's RAS threads complain of, where NCCL is loaded."""
    try:
        if "/libnccl" not in Path(f"/proc/{job.targets[0].pid}/maps").read_text(errors="replace"):
            return
    except OSError:
        return
    answer = ras.ask(job.environ.get("NCCL_RAS_ADDR") or ras.ADDRESS)
    here = {address.address for addresses in psutil.net_if_addrs().values() for address in addresses}
    yield from ras.complaints(answer, {target.pid: target.rank for target in job.targets}, here)
