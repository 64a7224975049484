"""Brings the files that each rank wrote to rank 0, over the rendezvous store alone, after the job has ended.

The ranks of a host hand their files to one of them (ddpdoctor/transport/host_relay.py), which brings them to rank 0's store. The
job may have served the store itself, on the same port: then rank 0 serves another now. A host delivers only when rank 0 says
that it listens, and connects again where the store goes away. Rank 0 lets the others leave when its caller has reported: a
launcher ends every rank as soon as one of them leaves with an error.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import socket
import sys
import time
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING

from rendezvous_args import first_line, meeting_options

from ddpdoctor.launch import attendance
from ddpdoctor.model import group_ranks
from ddpdoctor.transport.bundle import Bundle, ProcessIdentity
from ddpdoctor.transport.files import parts_of, write_files
from ddpdoctor.transport.host_relay import Relay, RelayMember, meeting_name, take_part

if TYPE_CHECKING:
    from torch.distributed import Store  # type: ignore[attr-defined] # public all the same

TURN_SECONDS = 5.0
POLL_SECONDS = 0.05
LONGEST_JOB_SECONDS = 30 * 86_400.0  # a rank waits for as long as its host's leader shows signs of life
PURPOSE = "sync"
LISTENING = "listening"


def main(arguments: list[str] | None = None) -> int:
    """Returns 0, or 3 with the reason as the last line of stderr where the ranks could not meet."""
    parser = meeting_options(__doc__)
    parser.add_argument(
        "--folder", type=Path, required=True, help="this rank's files; rank 0 gets the others' beside them"
    )
    parser.add_argument(
        "--gathered", type=Path, required=True, help="rank 0 writes here, once it has them, what could not be read"
    )
    parser.add_argument(
        "--reported", type=Path, required=True, help="rank 0 waits for this file, and lets the others leave"
    )
    options = parser.parse_args(arguments)
    end = time.monotonic() + options.deadline
    try:
        if options.rank == 0:
            receive(options, end)
        else:
            deliver(options, end)
    except TimeoutError as error:
        sys.stderr.write(f"{error}\n")
        return 3
    return 0


def receive(options: argparse.Namespace, end: float) -> None:
    """Rank 0: take every rank's files until all are there or the deadline has passed; then let the others leave.

    Raises:
        TimeoutError: it cannot serve the store, or reach it.
    """
    from torch.distributed import DistError

    from ddpdoctor.transport.rank_0 import Gathered, collect, let_go
    from ddpdoctor.transport.store import next_run, own_part

    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))  # two connections a host
    own, gathered = Bundle(), Gathered()
    own.add(myself(options), {})
    gathered.merge(own)
    try:
        whole = meet(options, serve=not options.hosted)
        whole.set_timeout(timedelta(seconds=max(TURN_SECONDS, end - time.monotonic())))  # hundreds may ask at a moment
        store = own_part(whole, PURPOSE)
        store.set(LISTENING, "")
        present = Present(options.world_size)
        collect(store, gathered, options.world_size, until=end, on_change=present.note)
        attendance.note(None, complete=True)
        parts = write_files(gathered.bundle, options.folder, options.world_size)
        unread = [f"a message of another rank was left out: {reason}" for reason in gathered.unread]
        if parts:
            unread.append(f"what {group_ranks(parts)} recorded did not come whole, and was left out")
        unfinished = options.gathered.with_name("gathered.unfinished")
        unfinished.write_text(json.dumps(unread), encoding="utf-8")
        unfinished.replace(options.gathered)
        while not options.reported.exists() and time.monotonic() < end + TURN_SECONDS:
            time.sleep(POLL_SECONDS)
        next_run(whole, PURPOSE)
        let_go(store, gathered)
    except DistError as error:
        raise TimeoutError(first_line(error)) from None


class Present:
    """Notes whose files are all here, now and then, for the command beside us, which says for whom it waits."""

    def __init__(self, world_size: int) -> None:
        self._ranks = range(world_size)
        self._next = 0.0

    def note(self, bundle: Bundle) -> None:
        """Write it down, unless it was a moment ago."""
        if time.monotonic() >= self._next:
            self._next = time.monotonic() + attendance.EVERY_SECONDS
            whole = {who.rank for who in bundle.accounts if bundle.complete(who)}
            attendance.note(whole.intersection(self._ranks), complete=False)


def deliver(options: argparse.Namespace, end: float) -> None:
    """Every other rank: hand in one's files as soon as rank 0 listens, and stay until it has reported.

    The deadline counts while nobody serves the store: rank 0's part of the job may take longer than ours.

    Raises:
        TimeoutError: nobody of this host reached rank 0.
    """
    attempt = os.environ.get("TORCHELASTIC_RESTART_COUNT", "0")
    member = RelayMember(
        who=myself(options),
        parts=lambda: parts_of(options.folder),
        join_until=end,
        leave_until=time.monotonic() + LONGEST_JOB_SECONDS,
    )

    def lead_host(relay: Relay, member: RelayMember) -> None:
        from torch.distributed import DistError

        from ddpdoctor.transport.rank_0 import lead

        try:
            connections = [listening(options, end), listening(options, end)]
        except DistError as error:
            raise TimeoutError(first_line(error)) from None
        try:
            lead(relay, replace(member, leave_until=time.monotonic() + options.deadline), connections.pop)
        except TimeoutError as error:  # rank 0 was there, and has ended: there is nobody to hand in to
            sys.stderr.write(f"{error}\n")

    take_part(meeting_name(PURPOSE, options.host, options.port, attempt), member, lead_host)


def listening(options: argparse.Namespace, end: float) -> Store:
    """A connection to the store in which rank 0 listens. The job's own may be there before, and end with it."""
    from torch.distributed import DistError

    from ddpdoctor.transport.store import own_part

    while True:
        try:
            store = own_part(meet(options, serve=False), PURPOSE)
            end = time.monotonic() + options.deadline
            store.wait([LISTENING])
            store.set_timeout(timedelta(seconds=options.deadline))
        except DistError:  # noqa: PERF203 - rank 0 does not listen yet, or the job's own store has ended with it
            if time.monotonic() > end:
                raise
            time.sleep(POLL_SECONDS)
        else:
            return store


def meet(options: argparse.Namespace, *, serve: bool) -> Store:
    """The store that all ranks of this attempt share."""
    from ddpdoctor.transport.store import open_store

    return open_store(options.host, options.port, serve=serve, timeout_seconds=TURN_SECONDS)


def myself(options: argparse.Namespace) -> ProcessIdentity:
    """Who this is. Clocks are not compared here: that of the host stands for it."""
    host = socket.gethostname()
    return ProcessIdentity(rank=options.rank, world_size=options.world_size, host=host, pid=os.getpid(), clock=host)


if __name__ == "__main__":
    sys.exit(main())
