"""Runs a user's own training script with the tracker in its ranks, and brings together what they wrote down."""

from __future__ import annotations

import contextlib
import os
import shlex
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from ddpdoctor.agent import DIRECTORY, gave_up, given_up, job_environment
from ddpdoctor.agent.inside.schema.rank_end import COMPARING
from ddpdoctor.agent.inside.verify_sync_feature import CLOSE_UP, EVERY, JOINING, PROBE, RECOMPUTE
from ddpdoctor.analysis.launch.rendezvous_address import WrongRendezvous
from ddpdoctor.derivation import derived
from ddpdoctor.errors import UsageError
from ddpdoctor.evidence import Evidence, Missing
from ddpdoctor.evidence.training_trace import Track
from ddpdoctor.host.running_jobs import find_jobs
from ddpdoctor.launch.attendance import EVERY_SECONDS, Waiting
from ddpdoctor.launch.guarded_process import end, start_guarded
from ddpdoctor.launch.private_directory import PrivateDirectory, private_directory
from ddpdoctor.launch.ranks import current_launch, ranks_command
from ddpdoctor.launch.rendezvous import meeting_point, waiting_of
from ddpdoctor.ranks.training_trace_reader import read_tracks
from ddpdoctor.source.context import source_of
from ddpdoctor.transport.store_files import gathered, hand_in
from ddpdoctor.workflows.hang import look
from ddpdoctor.workflows.step_bisection import OpenQuestion
from ddpdoctor.workflows.verify_notes import (
    STALLED,
    averages,
    how_it_ended,
    not_comparable,
    not_made_again,
    not_probed,
    not_written,
    stood_still,
    without_a_final_record,
    wrapped_twice,
)

JOIN = "call `init_process_group` on every rank, or give `--own-ranks` where the script starts its ranks itself"
POLL_SECONDS = 0.1
JOINING_SECONDS = 15.0  # without a rank that has joined, before it is seen where the ranks wait; then again and again


@dataclass(frozen=True, slots=True, kw_only=True)
class Tracked:
    """What a tracked run of a script gave."""

    evidence: Evidence | None
    """What its ranks wrote down; None on every rank of a launcher but rank 0, which reports."""
    code: int
    """The exit code of the script."""


@contextlib.contextmanager
def track_script(
    script: Path,
    arguments: Sequence[str],
    *,
    nproc: int | None,
    every: int,
    stall_after: float,
    quiet_stdout: bool,
    own_ranks: bool = False,
    probe_every: int = 0,
    recompute: bool = False,
    closely: OpenQuestion | None = None,
    on_wait: Callable[[Waiting], None] | None = None,
    on_gather: Callable[[Waiting], None] = lambda _: None,
) -> Iterator[Tracked]:
    """Run `script` with the tracker in each rank, on `nproc` local ranks or as the one rank that a launcher made of us.

    With `own_ranks` it is run once, as one process that is no rank, and starts its ranks itself.

    Audits every `every` steps (0: as time allows), runs the probe batch every `probe_every` steps (0: never), makes audited
    optimizer steps again with `recompute`, and looks `closely` for what an earlier run left open. The script's output is its
    own; with `quiet_stdout` its stdout goes to our stderr. A job whose ranks write nothing for `stall_after` seconds is ended.
    Under a launcher every rank's files come to rank 0, and the other ranks stay until the context is left. There `on_wait` is
    called once a second while this rank is in its `init_process_group`; who is absent only the script's own store knows.
    On rank 0 `on_gather` is called once a second until all ranks have handed in, with those that have not.

    Raises:
        UsageError: there is no such script, or `nproc` is out of range.
        UndecidedError: this rank could not hand in what it saw.
    """
    if not script.is_file():
        raise UsageError(f"{script} is not a file", hint="give the training script: verify-sync --nproc 2 train.py")
    launch = current_launch()
    with private_directory(for_sockets=True) as folder, contextlib.ExitStack() as stack:
        command, environ = (
            ([sys.executable, str(script), *arguments], {})
            if own_ranks
            else ranks_command(script, arguments, nproc=nproc, logs=str(folder.path))
        )
        directory, signals = folder.path / "ranks", folder.path / "signals"
        directory.mkdir()
        signals.mkdir()
        agent = job_environment(["verify_sync"], directory, os.environ)
        agent |= {EVERY: str(every), PROBE: str(probe_every), CLOSE_UP: _asked(closely), RECOMPUTE: str(int(recompute))}
        unread: tuple[str, ...] = ()
        note = None
        if on_wait is not None and launch is not None and launch.world_size > 1:
            note = _Joining(directory, waiting_of(launch, meeting_point(os.environ, launch)), on_wait).note
        code, stalled, apart = _run(command, {**environ, **agent}, folder, directory, stall_after, quiet_stdout, note)
        if stalled:
            (directory / STALLED).touch()
        if apart is not None:
            yield Tracked(evidence=apart, code=code)
            return
        if launch is not None and launch.world_size > 1:
            if launch.rank != 0:
                hand_in(launch, directory, deadline_seconds=stall_after)
                yield Tracked(evidence=None, code=code)
                return
            unread = stack.enter_context(
                gathered(launch, directory, signals, deadline_seconds=stall_after, on_wait=on_gather)
            )
        expected = nproc if launch is None else launch.world_size
        yield Tracked(
            evidence=_evidence(
                script, arguments, directory, expected, code, stall_after, unread, _launcher(nproc, own_ranks=own_ranks)
            ),
            code=code,
        )


def _asked(closely: OpenQuestion | None) -> str:
    """The steps and the tensor to look at, as the agent reads them."""
    return "" if closely is None else f"{closely.window.equal_at + 1}-{closely.window.apart_at} {closely.tensor}"


def _launcher(nproc: int | None, *, own_ranks: bool) -> str:
    """The beginning of the command that starts the ranks without us; under a launcher only the user knows the whole."""
    if own_ranks:
        return "python"
    return "torchrun ..." if nproc is None else f"torchrun --nproc-per-node {nproc}"


def _evidence(
    script: Path,
    arguments: Sequence[str],
    directory: Path,
    expected: int | None,
    code: int,
    stall_after: float,
    unread: Sequence[str],
    launcher: str,
) -> Evidence:
    """What the agents wrote into `directory`, and what is missing of it."""
    ranks = read_tracks(directory)
    command = shlex.join([str(script), *arguments])
    stalled = stood_still(script, directory, stall_after, f"{launcher} {command}")
    undecided = [*unread, *not_written(directory, directory.parents[1])]
    undecided += stalled
    undecided += _absent(expected, ranks=[facts.rank for facts in ranks])
    tracks = [fact for facts in ranks for fact in facts.facts if isinstance(fact, Track)]
    missing = [] if ranks else [Missing(kind="Track", reason=f"no rank of {script.name} joined a process group")]
    if not ranks and not stalled:
        nothing = f"no rank of {script.name} joined a process group, so there was nothing to compare"
        undecided.append(nothing if code else f"{nothing}. Next: {JOIN}")
    elif ranks and not any(track.steps or track.start for track in tracks):
        undecided.append(f"{script.name} wrapped no model in DistributedDataParallel and stepped no optimizer")
    ended = () if stalled else how_it_ended(script, code, f"{launcher} {command}")
    source = source_of({seen.line for track in tracks for seen in track.steps if seen.line is not None})
    return Evidence(
        job=(source,) if source is not None else (),
        ranks=ranks,
        notes=(
            *given_up(directory),
            *wrapped_twice(directory),
            *_windows(tracks),
            *without_a_final_record(ranks, gave_up(COMPARING, directory)),
            *ended,
        ),
        undecided=tuple(undecided),
        missing=tuple(missing),
        about_job=True,
        meta={"command": command},
    )


def _run(
    command: Sequence[str],
    environ: Mapping[str, str],
    folder: PrivateDirectory,
    directory: Path,
    stall_after: float,
    quiet_stdout: bool,
    note: Callable[[], None] | None,
) -> tuple[int, bool, Evidence | None]:
    """The exit code, whether the script was ended for its silence, and what its ranks showed where they wait elsewhere."""
    sys.stdout.flush()
    stdout = sys.stderr.fileno() if quiet_stdout else None
    job = start_guarded(command, env=environ, folder=folder, stdin=None, stdout=stdout)
    last, since = -1, time.monotonic()
    next_look = since + JOINING_SECONDS
    try:
        while True:
            try:
                return job.wait(timeout=POLL_SECONDS), False, None
            except subprocess.TimeoutExpired:
                size = sum(file.stat().st_size for file in directory.glob("*.sync.jsonl"))
            if note is not None:
                note()
            if size != last:
                last, since = size, time.monotonic()
            elif time.monotonic() - since > stall_after:
                return 124, True, None
            if not size and time.monotonic() > next_look:
                apart = _at_another_rendezvous(directory)
                if apart is not None:
                    return 124, False, apart
                next_look = time.monotonic() + JOINING_SECONDS
    finally:
        end(job)


class _Joining:
    """Calls `on_wait` once a second while a process of the script is in its first `init_process_group`."""

    def __init__(self, directory: Path, waiting: Waiting, on_wait: Callable[[Waiting], None]) -> None:
        self._directory = directory
        self._waiting = waiting
        self._on_wait = on_wait
        self._next = time.monotonic() + EVERY_SECONDS

    def note(self) -> None:
        """Look, at most once a second."""
        if time.monotonic() < self._next:
            return
        self._next = time.monotonic() + EVERY_SECONDS
        with contextlib.suppress(OSError):  # it has joined
            for file in self._directory.glob(f"*.{JOINING}"):
                where, began = file.read_text(encoding="utf-8"), file.stat().st_mtime
                self._on_wait(replace(self._waiting, where=where or self._waiting.where, seconds=time.time() - began))
                return


def _at_another_rendezvous(directory: Path) -> Evidence | None:
    """What the ranks show where they wait for each other at an address that is not their launcher's, else None."""
    for job in find_jobs().jobs:
        if job.environ.get(DIRECTORY) == str(directory):
            evidence = look(job)
            wrong = derived(evidence, WrongRendezvous)
            if wrong is not None and wrong.ranks:
                return evidence
    return None


def _absent(nproc: int | None, *, ranks: Sequence[int]) -> Sequence[str]:
    if nproc is None or not ranks or len(ranks) >= nproc:
        return []
    absent = sorted(set(range(nproc)) - set(ranks))
    return [f"only {len(ranks)} of {nproc} ranks are known to have joined; missing: {', '.join(map(str, absent))}"]


def _windows(tracks: Sequence[Track]) -> Sequence[str]:
    """What was not looked at: steps between audits, and parts of models."""
    interval = max((track.interval for track in tracks if not track.every), default=1)
    notes = []
    if interval > 1:
        notes.append(
            f"the last audits were {interval} steps apart to keep the overhead low: `--every 1` checks every step"
        )
    skipped, on_mesh = _fully_sharded(tracks)
    if skipped:
        notes.append(
            f"{skipped} of {on_mesh} parameters on a mesh are fully sharded: no two ranks hold the same part, so they were "
            "skipped"
        )
    notes += averages(tracks)
    notes += not_comparable(tracks)
    notes += not_made_again(tracks)
    notes += not_probed(tracks)
    return notes


def _fully_sharded(tracks: Sequence[Track]) -> tuple[int, int]:
    """How many parameters on a mesh have no part that two ranks hold, and how many there are."""
    parts = [track.steps[-1].parts for track in tracks if track.steps]
    names = {name for mine in parts for name in mine}
    alone = [name for name in names if len({mine[name][0] for mine in parts if name in mine}) == len(parts) > 1]
    return len(alone), len(names)
