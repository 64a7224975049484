"""Brings what every rank knows to rank 0, over the rendezvous store alone: no process group, no collective.

The ranks of a host hand what they found to one of them (ddpdoctor/transport/host_relay.py), which brings it to rank 0's
store and answers a few pings from rank 0, which tell how far the host's clock is off. A rank that never comes costs the
deadline, and is missing from the answer.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import math
import os
import resource
import signal
import socket
import sys
import time
from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING

from rendezvous_args import meeting_options

from ddpdoctor.launch.boot_id import boot_id
from ddpdoctor.transport.bundle import Bundle, Parts, ProcessIdentity
from ddpdoctor.transport.facts import GatheredFacts, decoded_parts
from ddpdoctor.transport.host_relay import Relay, RelayMember, meeting_name, take_part

if TYPE_CHECKING:
    from torch.distributed import Store  # type: ignore[attr-defined]

PURPOSE = "env"  # of keys in the store
OWN_FACTS_SECONDS = 90.0  # every collector's own deadline is shorter
SAME_RANK_SECONDS = 8.0  # a store that serves answers at once, on a busy machine within a second or two
POLL_SECONDS = 0.02
NOTE_SECONDS = 0.5  # between two notes about the ranks that have come


def main(arguments: list[str] | None = None) -> int:
    """Returns 0, or 3 with the reason as the last line of stderr where the ranks could not meet."""
    parser = meeting_options(__doc__)
    parser.add_argument("--facts", type=Path, required=True, help="the file that this rank's facts will appear in")
    parser.add_argument("--out", type=Path, required=True, help="where rank 0 writes what all ranks found")
    options = parser.parse_args(arguments)
    now = time.monotonic()
    member = RelayMember(
        who=myself(options),
        parts=lambda: facts_of(options.facts),
        join_until=now + options.deadline,
        leave_until=now + options.deadline + OWN_FACTS_SECONDS,
    )
    last_words(f"nothing at {options.host}:{options.port} answers as a store")
    try:
        if options.rank == 0:
            first_rank(member, options)
        else:
            take_part(meeting_name("env", options.host, options.port, attempt()), member, leader(options))
    except TimeoutError as error:
        last_words(str(error))
        return 3
    return 0


def first_rank(member: RelayMember, options: argparse.Namespace) -> None:
    """Rank 0's part: gather, or, where another process of the same rank does, hand in as any other."""
    from torch.distributed import DistError

    from ddpdoctor.transport.rank_0 import first_line, lead

    try:
        whole, store, speaks = meet(options)
        if speaks:
            listen(whole, store, member, options)
        else:
            lead(Relay(None), member, lambda: connect(options))
    except DistError as error:
        raise TimeoutError(first_line(error)) from None


def leader(options: argparse.Namespace) -> Callable[[Relay, RelayMember], None]:
    """What the rank does that sends for its host."""

    def lead_host(relay: Relay, member: RelayMember) -> None:
        from ddpdoctor.transport.rank_0 import lead

        lead(relay, member, lambda: connect(options))

    return lead_host


def attempt() -> str:
    """Which start of an elastic launch this is."""
    return os.environ.get("TORCHELASTIC_RESTART_COUNT", "0")


def connect(options: argparse.Namespace) -> Store:
    """A connection to the store that all ranks share."""
    from ddpdoctor.transport.store import open_store, own_part

    with ending_after(options.deadline):
        store = open_store(options.host, options.port, serve=False, timeout_seconds=options.deadline)
    return own_part(store, PURPOSE)


def meet(options: argparse.Namespace) -> tuple[Store, Store, bool]:
    """Rank 0: the store that all ranks share, the part of it that this run has, and whether this process is who speaks.

    It serves the store unless an agent does, or a process of the same rank already. Who serves also speaks: the store
    ends with its process, and the speaker is the last who needs it.
    """
    from torch.distributed import DistError

    from ddpdoctor.transport.store import open_store, own_part

    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))  # a connection a host, and two
    serves = not options.hosted
    second = False
    try:
        with ending_after(options.deadline):
            store = open_store(options.host, options.port, serve=serves, timeout_seconds=options.deadline)
    except DistError:
        if not serves:
            raise
        last_words(f"rank 0 cannot listen on {options.host}:{options.port}: another program does")
        with ending_after(SAME_RANK_SECONDS):
            store = open_store(options.host, options.port, serve=False, timeout_seconds=SAME_RANK_SECONDS)
        store.set_timeout(timedelta(seconds=options.deadline))
        second = True
    own = own_part(store, PURPOSE)
    if second:
        with contextlib.suppress(DistError):  # the store of another program: nobody has spoken up in it
            own.wait(["speakers"], timedelta(seconds=SAME_RANK_SECONDS))
    return store, own, own.add("speakers", 1) == 1


def last_words(reason: str) -> None:
    """Say why this process may be about to end."""
    sys.stderr.write(f"{reason}\n")


@contextlib.contextmanager
def ending_after(seconds: float) -> Iterator[None]:
    """End this process after `seconds`: a program that is no store keeps torch's client beyond any timeout."""
    signal.alarm(math.ceil(seconds) + 1)
    try:
        yield
    finally:
        signal.alarm(0)


def myself(options: argparse.Namespace) -> ProcessIdentity:
    """Who this is: two processes that claim one rank are told apart by host and process id."""
    return ProcessIdentity(
        rank=options.rank,
        world_size=options.world_size,
        host=socket.gethostname(),
        pid=os.getppid(),
        clock=clock_identity(),
    )


def clock_identity() -> str:
    """The same on every process that shares one kernel, and so one clock."""
    return boot_id() or socket.gethostname()


def facts_of(file: Path) -> Parts:
    """The facts, once the process beside us has gathered them; it renames the complete file into place."""
    end = time.monotonic() + OWN_FACTS_SECONDS
    while not file.exists():
        if time.monotonic() > end:
            raise TimeoutError(f"this rank's own facts did not come within {OWN_FACTS_SECONDS:g} s")
        time.sleep(POLL_SECONDS)
    return decoded_parts(file.read_bytes())


def listen(whole: Store, store: Store, member: RelayMember, options: argparse.Namespace) -> None:
    """Rank 0: wait for everybody or the deadline, compare clocks, write it all down, let the others go."""
    from ddpdoctor.transport.rank_0 import Gathered, collect, compare_clocks, let_go
    from ddpdoctor.transport.store import next_run

    present = Present(options.out.with_name("present.json"))
    own, gathered = Bundle(), Gathered()
    own.add(member.who, member.parts())
    gathered.merge(own)
    collect(store, gathered, options.world_size, until=time.monotonic() + options.deadline, on_change=present.note)
    clocks = compare_clocks(store, gathered, member.who)
    found = GatheredFacts(bundle=gathered.bundle.encode(), clocks=clocks, unread=gathered.unread)
    unfinished = options.out.with_name("gathered.unfinished")
    unfinished.write_bytes(found.encode())
    unfinished.replace(options.out)
    next_run(whole, PURPOSE)
    let_go(store, gathered)


class Present:
    """Tells the process beside us which ranks have come; it says for whom it waits."""

    def __init__(self, file: Path) -> None:
        self._file = file
        self._next = 0.0

    def note(self, bundle: Bundle) -> None:
        """Write it down, unless it was a moment ago."""
        if time.monotonic() < self._next:
            return
        self._next = time.monotonic() + NOTE_SECONDS
        unfinished = self._file.with_name("present.unfinished")
        unfinished.write_text(json.dumps(sorted({who.rank for who in bundle.accounts})), encoding="utf-8")
        unfinished.replace(self._file)


if __name__ == "__main__":
    sys.exit(main())
