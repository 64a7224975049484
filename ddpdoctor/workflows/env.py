"""What every rank of a launch knows, brought together on rank 0 over the rendezvous store."""

from __future__ import annotations

import json
import socket
import sys
import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor, wait
from dataclasses import replace
from pathlib import Path

from ddpdoctor.errors import UndecidedError, UsageError
from ddpdoctor.evidence import Evidence, Missing, RankFacts
from ddpdoctor.evidence.host import Clock
from ddpdoctor.evidence.launch import Arrival, Launch, RankSet
from ddpdoctor.host import collect_all
from ddpdoctor.host.host_access import HostAccess
from ddpdoctor.launch.attendance import WaitingProcess
from ddpdoctor.launch.guarded_process import ProgramEnd
from ddpdoctor.launch.private_directory import PrivateDirectory, private_directory
from ddpdoctor.launch.ranks import our_file, require_torch
from ddpdoctor.launch.rendezvous import Meeting, meeting_point, waiting_of
from ddpdoctor.model import group_ranks
from ddpdoctor.transport.bundle import Bundle
from ddpdoctor.transport.facts import FactsError, FactsReader, GatheredFacts, encoded_parts, parts_of

# before the deadline counts, torch is imported and facts are read; after it, clocks are compared
BESIDE_SECONDS = 240.0
OUTSIDE_SECONDS = 5.0  # for a rank outside the world to tell rank 0; its own facts take as long
WAIT_SECONDS = 1.0  # between two notes about ranks that have not come


def collect(
    access: HostAccess, *, deadline_seconds: float, on_wait: Callable[[WaitingProcess], None] | None = None
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
    try:
        require_torch()
    except UsageError as without:
        unmet = f"the ranks meet over PyTorch's store: {without.message}"
        return replace(_alone(collect_all.collect(access), launch), undecided=(unmet,))
    try:
        meeting = meeting_point(access.environ, launch)
    except UndecidedError as nowhere:
        if not (launch.by_hand or outside):
            raise
        return replace(_alone(collect_all.collect(access), launch), undecided=() if outside else (nowhere.message,))
    here, met = _together(access, launch, meeting, deadline_seconds, on_wait)
    if isinstance(met, UndecidedError):
        if launch.rank != 0 and not (launch.by_hand or outside):
            raise met
        return replace(_alone(here, launch), undecided=() if outside else (met.message,))
    return _evidence(met, launch, deadline_seconds) if met is not None else None


def _together(
    access: HostAccess,
    launch: Launch,
    meeting: Meeting,
    deadline_seconds: float,
    on_wait: Callable[[WaitingProcess], None] | None,
) -> tuple[collect_all.HostFacts, GatheredFacts | UndecidedError | None]:
    """What this process knows, and on rank 0 what all ranks sent, or why they did not meet; None on other ranks.

    Facts are read while the ranks meet.
    """
    with private_directory() as private, ThreadPoolExecutor(max_workers=1) as pool:
        meets = pool.submit(_meet, access, launch, meeting, private, deadline_seconds)
        try:
            here = collect_all.collect(access)
            _publish(here, private.path)
            ended = _waited(meets, launch, meeting, private.path, on_wait)
        except BaseException:
            access.stop.set()
            raise
        if ended.code != 0:
            return here, _not_met(ended, launch, meeting, deadline_seconds)
        return here, _gathered(private.path / "gathered")


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
    on_wait: Callable[[WaitingProcess], None] | None,
) -> ProgramEnd:
    """The end of the meeting; until then `on_wait` hears once a second who has not come."""
    began = time.monotonic()
    while not wait([meets], timeout=WAIT_SECONDS).done:
        if on_wait is not None:
            passed = time.monotonic() - began
            on_wait(replace(waiting_of(launch, meeting), absent=_absent(folder, launch), seconds=passed))
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
    folder: PrivateDirectory,
    deadline_seconds: float,
) -> ProgramEnd:
    command = [
        sys.executable, str(our_file("probes", "env_gather.py")),
        *meeting.arguments(launch, deadline_seconds),
        "--facts", str(folder.path / "facts"), "--out", str(folder.path / "gathered"),
    ]  # fmt: skip
    return access.run(command, deadline_seconds=2 * deadline_seconds + BESIDE_SECONDS, folder=folder)


def _publish(gathered: collect_all.HostFacts, folder: Path) -> None:
    """Put the facts where the probe waits for them, complete from the first moment."""
    unfinished = folder / "facts.unfinished"
    unfinished.write_bytes(encoded_parts(parts_of(gathered.facts, gathered.missing, gathered.notes)))
    unfinished.replace(folder / "facts")


def _gathered(file: Path) -> GatheredFacts | None:
    return GatheredFacts.decode(file.read_bytes()) if file.exists() else None


def _not_met(ended: ProgramEnd, launch: Launch, meeting: Meeting, deadline_seconds: float) -> UndecidedError:
    last_words = f": {ended.last_words}" if ended.last_words else ""
    where = f"{meeting.host}:{meeting.port}"
    return UndecidedError(
        f"rank {launch.rank} did not reach the other ranks at {where} within {deadline_seconds:g} s{last_words}",
        hint="check that MASTER_ADDR is rank 0's host, and that nothing else uses MASTER_PORT",
    )


def _evidence(gathered: GatheredFacts, launch: Launch, deadline_seconds: float) -> Evidence:
    bundle = Bundle.decode(gathered.bundle)
    reader = FactsReader(bundle)
    ranks: list[RankFacts] = []
    missing: list[Missing] = []
    notes: list[str] = []
    undecided = [f"a message of another rank was left out: {reason}" for reason in gathered.unread]
    compared: set[str] = set()
    for who in bundle.accounts:
        if not bundle.complete(who):
            undecided.append(
                f"rank {who.rank} on {who.host} joined, but sent no evidence within {deadline_seconds:g} s"
            )
            continue
        try:
            facts = reader.facts(who)
            missing += reader.missing(who)
            notes += [f"rank {who.rank}: {note}" for note in reader.notes(who)]
        except FactsError as error:
            undecided.append(f"rank {who.rank} on {who.host} sent evidence that cannot be used: {error}")
            continue
        if who.clock in gathered.clocks and who.clock not in compared:
            compared.add(who.clock)
            offset = gathered.clocks[who.clock]
            clock = Clock(ahead_seconds=offset.ahead_seconds, error_seconds=offset.error_seconds)
            facts = replace(facts, facts=(*facts.facts, clock))
        ranks.append(facts)
    absent = sorted({*range(launch.world_size)} - {who.rank for who in bundle.accounts})
    if absent:
        undecided.append(f"{group_ranks(absent)} of {launch.world_size} did not join within {deadline_seconds:g} s")
    if not compared:
        missing.append(Missing(kind="Clock", reason="all ranks run on one host and share its clock"))
    arrivals = tuple(
        Arrival(rank=who.rank, world_size=who.world_size, host=who.host, pid=who.pid) for who in bundle.accounts
    )
    return Evidence(
        job=(RankSet(world_size=launch.world_size, deadline_seconds=deadline_seconds, arrivals=arrivals),),
        ranks=tuple(sorted(ranks, key=lambda facts: facts.rank)),
        missing=tuple(missing),
        notes=tuple(notes),
        undecided=tuple(undecided),
    )
