"""Brings what the agents of a launched job wrote down, one process and perhaps one host a rank, to the process of rank 0."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

from ddpdoctor.errors import UndecidedError
from ddpdoctor.evidence.launch import Launch
from ddpdoctor.launch.guarded_process import end, run, start_guarded
from ddpdoctor.launch.ranks import our_file
from ddpdoctor.launch.rendezvous import meeting_point

IMPORT_SECONDS = 60.0  # of torch, on a busy host
POLL_SECONDS = 0.05


def hand_in(launch: Launch, folder: Path, *, deadline_seconds: float) -> None:
    """Any rank but 0: give the files in `folder` to rank 0, and wait until it has reported.

    Raises:
        UndecidedError: nobody served a store to give them through for `deadline_seconds`.
    """
    ended = run(_command(launch, folder, folder, deadline_seconds), deadline_seconds=float("inf"))
    if ended.code:
        said = (ended.stderr.strip().splitlines() or ["no reason given"])[-1]
        raise UndecidedError(f"rank {launch.rank} could not send its evidence to rank 0: {said}")


@contextlib.contextmanager
def gathered(launch: Launch, folder: Path, signals: Path, *, deadline_seconds: float) -> Iterator[None]:
    """Rank 0: the other ranks' files lie beside its own in `folder`; they wait, below their launcher, until this is left.

    Files of a rank that does not come within the deadline, and the time that it needs to hand in when it was ended at the
    deadline itself, are missing. `signals` is an empty directory.
    """
    deadline_seconds += IMPORT_SECONDS
    probe = start_guarded(_command(launch, folder, signals, deadline_seconds), stderr=subprocess.DEVNULL)
    until = time.monotonic() + deadline_seconds + IMPORT_SECONDS
    try:
        while probe.poll() is None and not (signals / "gathered").exists() and time.monotonic() < until:
            time.sleep(POLL_SECONDS)
        yield
        (signals / "reported").touch()
        with contextlib.suppress(subprocess.TimeoutExpired):
            probe.wait(timeout=IMPORT_SECONDS)
    finally:
        end(probe)


def _command(launch: Launch, folder: Path, signals: Path, deadline_seconds: float) -> list[str]:
    meeting = meeting_point(os.environ, launch)
    return [
        sys.executable, str(our_file("probes", "file_gather.py")),
        *meeting.arguments(launch, deadline_seconds),
        "--folder", str(folder), "--gathered", str(signals / "gathered"), "--reported", str(signals / "reported"),
    ]  # fmt: skip
