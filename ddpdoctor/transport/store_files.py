"""Brings what the agents of a launched job wrote down, one process and perhaps one host a rank, to the process of rank 0."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from ddpdoctor.errors import UndecidedError
from ddpdoctor.evidence.launch import Launch
from ddpdoctor.launch.attendance import Attendance, WaitingProcess
from ddpdoctor.launch.guarded_process import end, run, start_guarded
from ddpdoctor.launch.ranks import our_file
from ddpdoctor.launch.rendezvous import meeting_point, waiting_of

IMPORT_SECONDS = 60.0  # of torch, on a busy host
POLL_SECONDS = 0.05


def hand_in(launch: Launch, folder: Path, *, deadline_seconds: float) -> None:
    """Any rank but 0: give the files in `folder` to rank 0, and wait until it has reported.

    Raises:
        UndecidedError: nobody served a store to give them through for `deadline_seconds`.
    """
    ended = run(_command(launch, folder, folder, deadline_seconds), deadline_seconds=float("inf"))
    if ended.code:
        reason = (ended.stderr.strip().splitlines() or ["no reason given"])[-1]
        raise UndecidedError(f"rank {launch.rank} could not send its evidence to rank 0: {reason}")


@contextlib.contextmanager
def gathered(
    launch: Launch,
    folder: Path,
    signals: Path,
    *,
    deadline_seconds: float,
    on_wait: Callable[[WaitingProcess], None] = lambda _: None,
) -> Iterator[tuple[str, ...]]:
    """Rank 0: the other ranks' files lie beside its own in `folder`; they wait, below their launcher, until this is left.

    Gives what came and could not be read, in words. `on_wait` is called once a second until all have handed in. Files of a
    rank that does not come within the deadline, and the time that it needs to hand in when it was ended at the deadline
    itself, are missing. `signals` is an empty directory.
    """
    deadline_seconds += IMPORT_SECONDS
    waiting = waiting_of(launch, meeting_point(os.environ, launch))
    attendance = Attendance(signals / "attendance.json", waiting, on_wait)
    command = _command(launch, folder, signals, deadline_seconds)
    probe = start_guarded(command, env=attendance.environment, stderr=subprocess.DEVNULL)
    until = time.monotonic() + deadline_seconds + IMPORT_SECONDS
    try:
        while probe.poll() is None and not (signals / "gathered").exists() and time.monotonic() < until:
            attendance.poll()
            time.sleep(POLL_SECONDS)
        yield _unread(signals / "gathered")
        (signals / "reported").touch()
        with contextlib.suppress(subprocess.TimeoutExpired):
            probe.wait(timeout=IMPORT_SECONDS)
    finally:
        end(probe)


def _unread(file: Path) -> tuple[str, ...]:
    try:
        return tuple(json.loads(file.read_text(encoding="utf-8")))
    except (
        FileNotFoundError
    ):  # the deadline passed, or the store could not be served: the ranks that are absent are named
        return ()


def _command(launch: Launch, folder: Path, signals: Path, deadline_seconds: float) -> list[str]:
    meeting = meeting_point(os.environ, launch)
    return [
        sys.executable, str(our_file("probes", "file_gather.py")),
        *meeting.arguments(launch, deadline_seconds),
        "--folder", str(folder), "--gathered", str(signals / "gathered"), "--reported", str(signals / "reported"),
    ]  # fmt: skip
