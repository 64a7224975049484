"""Runs a user's own training script with the tracker in its ranks, and brings together what they wrote down."""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from ddpdoctor.agent import DIRECTORY, job_environment
from ddpdoctor.agent.inside.verify_sync_feature import JOINING
from ddpdoctor.analysis.launch.rendezvous_address import WrongRendezvous
from ddpdoctor.derivation import derived
from ddpdoctor.errors import UsageError
from ddpdoctor.evidence import Evidence
from ddpdoctor.host.running_jobs import find_jobs
from ddpdoctor.launch.attendance import EVERY_SECONDS, WaitingProcess
from ddpdoctor.launch.guarded_process import end, start_guarded
from ddpdoctor.launch.private_directory import PrivateDirectory, private_directory
from ddpdoctor.launch.ranks import current_launch
from ddpdoctor.launch.rendezvous import meeting_point, waiting_of
from ddpdoctor.launch.waiting import wait_for_end
from ddpdoctor.transport.store_files import gathered, hand_in
from ddpdoctor.workflows.hang import look
from ddpdoctor.workflows.training_script import Audit, TrainingScript
from ddpdoctor.workflows.verify_evidence import evidence_of
from ddpdoctor.workflows.verify_notes import INTERRUPTED, STALLED

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
    script: TrainingScript,
    audit: Audit,
    *,
    stall_after: float,
    quiet_stdout: bool,
    on_wait: Callable[[WaitingProcess], None] | None,
    on_gather: Callable[[WaitingProcess], None],
) -> Iterator[Tracked]:
    """Run a script with the tracker in each rank: on local ranks, or as the one rank that a launcher made of us.

    The script's output is its own; with `quiet_stdout` its stdout goes to our stderr. A job whose ranks write nothing for
    `stall_after` seconds is ended. Ctrl-C and SIGTERM end the job, and what it recorded until then is given, if anything.
    Under a launcher every rank's files come to rank 0, and the other ranks stay until the context is left. There `on_wait` is
    called once a second while this rank is in its `init_process_group`; who is absent only the script's own store knows.
    On rank 0 `on_gather` is called once a second until all ranks have handed in, with those that have not.

    Raises:
        UsageError: there is no such script, or its number of ranks is out of range.
        UndecidedError: this rank could not hand in what it saw.
    """
    if not script.path.is_file():
        raise UsageError(
            f"{script.path} is not a file", hint="give the training script: `ddpdoctor verify-sync --nproc 2 train.py`"
        )
    launch = current_launch()
    under_launcher = launch is not None and launch.world_size > 1
    with private_directory(for_sockets=True) as folder, contextlib.ExitStack() as stack:
        directory, signals = folder.path / "ranks", folder.path / "signals"
        directory.mkdir()
        signals.mkdir()
        command, environ = script.command(logs=folder.path)
        environ |= {**job_environment(["verify_sync"], directory, os.environ), **audit.environ}
        note = None
        if on_wait is not None and launch is not None and under_launcher:
            note = _Joining(directory, waiting_of(launch, meeting_point(os.environ, launch)), on_wait).note
        try:
            code, stalled, apart = _run(command, environ, folder, directory, stall_after, quiet_stdout, note)
        except KeyboardInterrupt:
            if under_launcher or not _recorded_bytes(
                directory
            ):  # a launcher ends the other ranks: they hand nothing in
                raise
            code, stalled, apart = 128 + signal.SIGINT, False, None
            (directory / INTERRUPTED).touch()
        if stalled:
            (directory / STALLED).touch()
        if apart is not None:
            yield Tracked(evidence=apart, code=code)
            return
        unread: tuple[str, ...] = ()
        if launch is not None and under_launcher:
            if launch.rank != 0:
                hand_in(launch, directory, deadline_seconds=stall_after)
                yield Tracked(evidence=None, code=code)
                return
            unread = stack.enter_context(
                gathered(launch, directory, signals, deadline_seconds=stall_after, on_wait=on_gather)
            )
        expected = script.nproc if launch is None else launch.world_size
        evidence = evidence_of(script, directory, code=code, expected=expected, stall_after=stall_after, unread=unread)
        yield Tracked(evidence=evidence, code=code)


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
            if (code := wait_for_end(job, POLL_SECONDS)) is not None:
                return code, False, None
            size = _recorded_bytes(directory)
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


def _recorded_bytes(directory: Path) -> int:
    """How much the trackers of all ranks have written into `directory`."""
    return sum(file.stat().st_size for file in directory.glob("*.sync.jsonl"))


class _Joining:
    """Calls `on_wait` once a second while a process of the script is in its first `init_process_group`."""

    def __init__(self, directory: Path, waiting: WaitingProcess, on_wait: Callable[[WaitingProcess], None]) -> None:
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
