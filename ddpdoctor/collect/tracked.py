"""Runs a user's own training script with the tracker in its ranks, and brings together what they wrote down."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from ddpdoctor.agent import given_up, job_environment
from ddpdoctor.collect.tracks import read_tracks
from ddpdoctor.errors import UsageError
from ddpdoctor.evidence import Evidence, Missing
from ddpdoctor.evidence.track import Track
from ddpdoctor.launch.observed import private_directory
from ddpdoctor.launch.program import end, start_guarded
from ddpdoctor.launch.ranks import ranks_command

EVERY = "DDPDOCTOR_SYNC_EVERY"
POLL_SECONDS = 0.1


@dataclass(frozen=True, slots=True, kw_only=True)
class Tracked:
    """The evidence, and how the script ended: its exit code, and whether we ended it because it stood still."""

    evidence: Evidence
    code: int
    stalled: bool


def track_script(
    script: Path, arguments: Sequence[str], *, nproc: int | None, every: int, stall_after: float, quiet_stdout: bool
) -> Tracked:
    """Run `script` on `nproc` local ranks with the tracker in each; audits every `every` steps (0: as time allows).

    The script's output is its own; with `quiet_stdout` its stdout goes to our stderr. A job whose ranks write nothing for
    `stall_after` seconds is ended.

    Raises:
        UsageError: there is no such script, or `nproc` is out of range.
    """
    if not script.is_file():
        raise UsageError(f"{script} is not a file", hint="give the training script: verify-sync --nproc 2 train.py")
    command, environ = ranks_command(script, arguments, nproc=nproc)
    with private_directory() as folder:
        directory = Path(folder)
        agent = job_environment(["sync"], directory, os.environ)
        code, stalled = _run(command, {**environ, **agent, EVERY: str(every)}, directory, stall_after, quiet_stdout)
        ranks = read_tracks(directory)
        notes = given_up(directory)
    undecided = list(
        _undecided(script, nproc, ranks=[facts.rank for facts in ranks], stalled=stalled, after=stall_after)
    )
    tracks = [fact for facts in ranks for fact in facts.facts if isinstance(fact, Track)]
    missing = [] if ranks else [Missing(kind="Track", reason=f"no rank of {script.name} joined a process group")]
    if not ranks and not stalled:
        undecided.append(f"no rank of {script.name} joined a process group, so there was nothing to compare")
    elif ranks and not any(track.steps or track.start for track in tracks):
        undecided.append(f"{script.name} wrapped no model in DistributedDataParallel and stepped no optimizer")
    evidence = Evidence(
        ranks=ranks, notes=(*notes, *_windows(tracks)), undecided=tuple(undecided), missing=tuple(missing), about_job=True,
        meta={"command": shlex.join([str(script), *arguments])},
    )  # fmt: skip
    return Tracked(evidence=evidence, code=code, stalled=stalled)


def _run(
    command: Sequence[str], environ: Mapping[str, str], directory: Path, stall_after: float, quiet_stdout: bool
) -> tuple[int, bool]:
    sys.stdout.flush()
    stdout = sys.stderr.fileno() if quiet_stdout else None
    job = start_guarded(command, env=environ, stdin=None, stdout=stdout)
    last, since = -1, time.monotonic()
    try:
        while True:
            try:
                return job.wait(timeout=POLL_SECONDS), False
            except subprocess.TimeoutExpired:
                size = sum(file.stat().st_size for file in directory.glob("*.sync.jsonl"))
            if size != last:
                last, since = size, time.monotonic()
            elif time.monotonic() - since > stall_after:
                return 124, True
    finally:
        end(job)


def _undecided(script: Path, nproc: int | None, *, ranks: Sequence[int], stalled: bool, after: float) -> Sequence[str]:
    said = []
    if stalled:
        said.append(
            f"{script.name} wrote nothing for {after:g} s and was ended: `ddpdoctor watch -- torchrun ... {script.name}` "
            "says which rank keeps it waiting"
        )
    if nproc is not None and ranks and len(ranks) < nproc:
        absent = sorted(set(range(nproc)) - set(ranks))
        said.append(
            f"only {len(ranks)} of {nproc} ranks joined the process group; missing: {', '.join(map(str, absent))}"
        )
    return said


def _windows(tracks: Sequence[Track]) -> Sequence[str]:
    """What was not looked at: steps between audits, ranks that ended without last words."""
    interval = max((track.interval for track in tracks if not track.every), default=1)
    notes = []
    if interval > 1:
        notes.append(
            f"the last audits were {interval} steps apart to keep the cost low: `--every 1` looks at every step"
        )
    silent = sum(track.steps_made is None for track in tracks)
    if silent:
        notes.append(f"{silent} of {len(tracks)} ranks ended without last words (a signal, or os._exit)")
    return notes
