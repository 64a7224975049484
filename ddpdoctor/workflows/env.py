"""What every rank of a launch knows, brought together on rank 0 over the rendezvous store."""

from __future__ import annotations

import json
import re
import socket
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import msgspec

from ddpdoctor.errors import UndecidedError, UsageError
from ddpdoctor.evidence import Evidence, Missing, RankFacts, kinds
from ddpdoctor.evidence.host import Clock
from ddpdoctor.evidence.launch import Arrival, Launch, RankSet
from ddpdoctor.host import collect_all
from ddpdoctor.host.host_access import HostAccess
from ddpdoctor.launch.guarded_process import ProgramEnd
from ddpdoctor.launch.ranks import our_file, require_torch
from ddpdoctor.launch.rendezvous import Meeting, meeting_point
from ddpdoctor.model import group_ranks

# before the deadline counts, torch is imported and facts are read; after it, clocks are compared
BESIDE_SECONDS = 240.0
OUTSIDE_SECONDS = 5.0  # for a rank outside the world to tell rank 0; its own facts take as long
WAIT_SECONDS = 1.0  # between two notes about ranks that have not come


@dataclass(frozen=True, slots=True, kw_only=True)
class Waiting:
    """What a rank waits for, and for how long at most."""

    launch: Launch
    """The rank that waits."""
    meeting: Meeting
    """Where the ranks meet."""
    absent: tuple[int, ...] | None
    """The ranks that have not come, as rank 0 knows it; None where they are not known."""
    seconds: float
    """Time passed since this rank began to wait."""


def collect(
    access: HostAccess, *, deadline_seconds: float, on_wait: Callable[[Waiting], None] | None = None
) -> Evidence | None:
    """The evidence of this host, or of all ranks where a launcher started us: then None on ranks that do not speak.

    A rank that does not come within the deadline is named among `undecided`. So is the reason why rank 0 met nobody; its
    evidence is then that of its own host, which may hold the cause. So does a rank that nobody else could tell of: one
    outside the world, which its own RANK decides and which tells rank 0 if that answers at once, or one that a person at a
    terminal started.

    `on_wait` is called once a second while this rank waits for others.

    Raises:
        UndecidedError: any other rank could not meet the others; the message says where it tried.
    """
    launch = access.launch
    if launch is None or launch.world_size == 1:
        return _alone(collect_all.collect(access), launch)
    outside = not 0 <= launch.rank < launch.world_size
    if outside:
        deadline_seconds = min(deadline_seconds, OUTSIDE_SECONDS)
    tells_alone = launch.by_hand or outside
    try:
        require_torch()
    except UsageError as without:
        unmet = f"the ranks meet over PyTorch's store: {without.message}"
        return replace(_alone(collect_all.collect(access), launch), undecided=(unmet,))
    try:
        meeting = meeting_point(access.environ, launch)
    except UndecidedError as nowhere:
        if not tells_alone:
            raise
        return replace(_alone(collect_all.collect(access), launch), undecided=() if outside else (nowhere.message,))
    with tempfile.TemporaryDirectory(prefix="ddpdoctor-") as name, ThreadPoolExecutor(max_workers=1) as pool:
        folder = Path(name)
        guarded = threading.Event()
        meets = pool.submit(_meet, access, launch, meeting, folder, guarded, deadline_seconds)
        meets.add_done_callback(lambda _: guarded.set())
        try:
            guarded.wait()  # before the collectors start their programs: a SIGKILL now leaves no folder behind
            gathered = collect_all.collect(access)
            _publish(gathered, folder)
            ended = _waited(meets, launch, meeting, folder, on_wait)
        except BaseException:
            access.stop.set()
            raise
        if ended.code != 0:
            reason = _not_met(ended, launch, meeting, deadline_seconds)
            if launch.rank != 0 and not tells_alone:
                raise reason
            return replace(_alone(gathered, launch), undecided=() if outside else (reason.message,))
        lines = _lines(folder / "gathered.jsonl")
    return _evidence(lines, launch, deadline_seconds) if lines else None


def _alone(gathered: collect_all.HostFacts, launch: Launch | None) -> Evidence:
    """What this process knows by itself: there is no launch, or rank 0 met nobody."""
    return Evidence(
        ranks=(RankFacts(rank=launch.rank if launch else 0, host=socket.gethostname(), facts=gathered.facts),),
        missing=(
            *gathered.missing,
            Missing(kind="RankSet", reason="no other rank reported its environment"),
            Missing(kind="Clock", reason="no other rank reported its environment"),
        ),
        notes=gathered.notes,
        launched=launch is not None,
    )


def _waited(
    meets: Future[ProgramEnd],
    launch: Launch,
    meeting: Meeting,
    folder: Path,
    on_wait: Callable[[Waiting], None] | None,
) -> ProgramEnd:
    """The end of the meeting; until then `on_wait` hears once a second who has not come."""
    began = time.monotonic()
    while not wait([meets], timeout=WAIT_SECONDS).done:
        if on_wait is not None:
            passed = time.monotonic() - began
            on_wait(Waiting(launch=launch, meeting=meeting, absent=_absent(folder, launch), seconds=passed))
    return meets.result()


def _absent(folder: Path, launch: Launch) -> tuple[int, ...] | None:
    try:
        present = json.loads((folder / "present.json").read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    return tuple(sorted({*range(launch.world_size)} - {*present}))


def _meet(
    access: HostAccess,
    launch: Launch,
    meeting: Meeting,
    folder: Path,
    guarded: threading.Event,
    deadline_seconds: float,
) -> ProgramEnd:
    command = [
        sys.executable, str(our_file("probes", "env_gather.py")),
        *meeting.arguments(launch, deadline_seconds),
        "--facts", str(folder / "facts.json"), "--out", str(folder / "gathered.jsonl"),
    ]  # fmt: skip
    return access.run(
        command, deadline_seconds=2 * deadline_seconds + BESIDE_SECONDS, folder=str(folder), started=guarded
    )


def _publish(gathered: collect_all.HostFacts, folder: Path) -> None:
    """Put the facts where the probe waits for them, complete from the first moment."""
    document = {
        "facts": {type(fact).__name__: msgspec.to_builtins(fact, str_keys=True) for fact in gathered.facts},
        "missing": [msgspec.to_builtins(missing) for missing in gathered.missing],
        "notes": list(gathered.notes),
    }
    unfinished = folder / "facts.unfinished"
    unfinished.write_bytes(msgspec.json.encode(document))
    unfinished.replace(folder / "facts.json")


def _lines(file: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()] if file.exists() else []


def _not_met(ended: ProgramEnd, launch: Launch, meeting: Meeting, deadline_seconds: float) -> UndecidedError:
    reasons = [line.strip() for line in ended.stderr.splitlines() if re.match(r"^\s*(?!frame #|\[W|<omitting)\S", line)]
    said = reasons[-1] if reasons else "no reason given"
    where = f"{meeting.host}:{meeting.port}"
    return UndecidedError(
        f"rank {launch.rank} did not reach the other ranks at {where} within {deadline_seconds:g} s: {said}",
        hint="check that MASTER_ADDR is rank 0's host, and that nothing else uses MASTER_PORT",
    )


def _evidence(lines: list[dict[str, Any]], launch: Launch, deadline_seconds: float) -> Evidence:
    ranks: list[RankFacts] = []
    missing: list[Missing] = []
    notes: list[str] = []
    undecided: list[str] = []
    arrivals = tuple(
        Arrival(**{name: line["arrival"][name] for name in Arrival.__dataclass_fields__}) for line in lines
    )
    for who, line in zip(arrivals, lines, strict=True):
        if line["facts"] is None:
            undecided.append(
                f"rank {who.rank} on {who.host} joined, but sent no evidence within {deadline_seconds:g} s"
            )
            continue
        ranks.append(RankFacts(rank=who.rank, host=who.host, facts=_facts(line)))
        missing += [Missing(kind=one["kind"], reason=one["reason"], rank=who.rank) for one in line["facts"]["missing"]]
        notes += [f"rank {who.rank}: {note}" for note in line["facts"]["notes"]]
    absent = sorted({*range(launch.world_size)} - {who.rank for who in arrivals})
    if absent:
        undecided.append(f"{group_ranks(absent)} of {launch.world_size} did not join within {deadline_seconds:g} s")
    if not any(line["clock"] for line in lines):
        missing.append(Missing(kind="Clock", reason="all ranks run on one host and share its clock"))
    return Evidence(
        job=(RankSet(world_size=launch.world_size, deadline_seconds=deadline_seconds, arrivals=arrivals),),
        ranks=tuple(sorted(ranks, key=lambda facts: facts.rank)),
        missing=tuple(missing),
        notes=tuple(notes),
        undecided=tuple(undecided),
    )


def _facts(line: dict[str, Any]) -> tuple[Any, ...]:
    facts: list[Any] = [
        msgspec.convert(fields, kinds()[kind], str_keys=True) for kind, fields in line["facts"]["facts"].items()
    ]
    return (*facts, Clock(**line["clock"])) if line["clock"] else tuple(facts)
