"""Brings what the agents of a launched job wrote down, one process and perhaps one host a rank, to the process of rank 0."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from ddpdoctor.errors import UndecidedError
from ddpdoctor.evidence.launch import Launch
from ddpdoctor.launch.meeting import meeting_point
from ddpdoctor.launch.program import end, run, start_guarded
from ddpdoctor.launch.ranks import our_file

IMPORT_SECONDS = 60.0  # of torch, on a busy host
POLL_SECONDS = 0.05
REPORTED = "reported"


@dataclass(slots=True)
class Verdict:
    """The exit code with which rank 0 ends, and every other rank after it.

    A torchrun whose own ranks ended well waits five minutes for one on which a rank failed.
    """

    code: int = 0


def hand_in(launch: Launch, folder: Path, *, deadline_seconds: float) -> Verdict:
    """Any rank but 0: give the files in `folder` to rank 0, wait until it has reported, and return its verdict.

    Raises:
        UndecidedError: nobody served a store to give them through for `deadline_seconds`.
    """
    ended = run(_command(launch, folder, folder, deadline_seconds), deadline_seconds=float("inf"))
    if ended.code:
        said = (ended.stderr.strip().splitlines() or ["no reason given"])[-1]
        raise UndecidedError(f"rank {launch.rank} could not give what it saw to rank 0: {said}")
    reported = folder / REPORTED
    said_code = reported.read_text() if reported.exists() else ""
    return Verdict(int(said_code) if said_code else 0)


@contextlib.contextmanager
def gathered(launch: Launch, folder: Path, signals: Path, *, deadline_seconds: float) -> Iterator[Verdict]:
    """Rank 0: the other ranks' files lie beside its own in `folder`; they wait, below their launcher, until this is left.

    They end with the code that the caller puts into the `Verdict`. Files of a rank that does not come within the deadline are
    missing. `signals` is an empty directory.
    """
    probe = start_guarded(_command(launch, folder, signals, deadline_seconds), stderr=subprocess.DEVNULL)
    until = time.monotonic() + deadline_seconds + IMPORT_SECONDS
    try:
        while probe.poll() is None and not (signals / "gathered").exists() and time.monotonic() < until:
            time.sleep(POLL_SECONDS)
        verdict = Verdict()
        yield verdict
        part = signals / "part"
        part.write_text(str(verdict.code))
        part.rename(signals / REPORTED)
        with contextlib.suppress(subprocess.TimeoutExpired):
            probe.wait(timeout=IMPORT_SECONDS)
    finally:
        end(probe)


def _command(launch: Launch, folder: Path, signals: Path, deadline_seconds: float) -> list[str]:
    meeting = meeting_point(os.environ, launch)
    return [
        sys.executable, str(our_file("probes", "journals.py")),
        "--rank", str(launch.rank), "--world-size", str(launch.world_size),
        "--host", meeting.host, "--port", str(meeting.port), "--deadline", str(deadline_seconds),
        "--folder", str(folder), "--gathered", str(signals / "gathered"), "--reported", str(signals / REPORTED),
        *(["--hosted"] if meeting.hosted else []),
    ]  # fmt: skip
