"""Brings what every rank knows to rank 0, over the rendezvous store alone: no process group, no collective.

Each rank says first that it is there, then what it found, and answers a few pings from rank 0, which tell how far its
clock is off. A rank that never comes costs the deadline, and is missing from the answer. A store's traffic is one
message per rank; the pings take three round trips a host.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import math
import os
import signal
import socket
import sys
import time
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

from rendezvous_args import first_line, meeting_options
from torch.distributed import DistError, Store, TCPStore  # type: ignore[attr-defined] # public all the same

from ddpdoctor.transport.store import get, own_part, put, wait_for

PINGS = 5
CLOCK_SECONDS = 5.0
LEAVE_SECONDS = 5.0
OWN_FACTS_SECONDS = 90.0  # every collector's own deadline is shorter
SAME_RANK_SECONDS = 8.0  # a store that serves answers at once, on a busy machine within a second or two
POLL_SECONDS = 0.02


def main() -> int:
    """Returns 0, or 3 with the reason as the last line of stderr where the ranks could not meet."""
    parser = meeting_options(__doc__)
    parser.add_argument("--facts", type=Path, required=True, help="the file that this rank's facts will appear in")
    parser.add_argument("--out", type=Path, required=True, help="where rank 0 writes a JSON line an arrival")
    options = parser.parse_args()
    try:
        store, speaks = meet(options)
        number = store.add("arrivals", 1)
        store.set(f"arrival/{number}", json.dumps(arrival(options)))
        put(store, f"facts/{number}", facts_of(options.facts))
        if speaks:
            listen(store, number, options)
        else:
            answer(store, number, options.deadline + OWN_FACTS_SECONDS)
    except (DistError, TimeoutError) as error:
        sys.stderr.write(f"{first_line(error)}\n")
        return 3
    return 0


def meet(options: argparse.Namespace) -> tuple[Store, bool]:
    """The store that all ranks share, and whether this process is the one that speaks.

    Rank 0 serves the store unless an agent does, or a process of the same rank already. Who serves also speaks: the store
    ends with its process, and the speaker is the last who needs it.
    """
    serves = options.rank == 0 and not options.hosted
    timeout = timedelta(seconds=options.deadline)
    last_words(f"nothing at {options.host}:{options.port} answers as a store", options.deadline)
    try:
        store: Store = TCPStore(options.host, options.port, None, serves, timeout, wait_for_workers=False)
        second = False
    except DistError:
        if not serves:
            raise
        last_words(f"rank 0 cannot listen on {options.host}:{options.port}: another program does", SAME_RANK_SECONDS)
        store = TCPStore(options.host, options.port, None, False, timeout)
        second = True
    signal.alarm(0)
    store = own_part(store, "env")
    if second:
        with contextlib.suppress(DistError):  # the store of another program: nobody has spoken up in it
            store.wait(["speakers"], timedelta(seconds=SAME_RANK_SECONDS))
    return store, options.rank == 0 and store.add("speakers", 1) == 1


def last_words(reason: str, seconds: float) -> None:
    """Say why this process may be about to end: a program that is no store keeps torch's client beyond any timeout."""
    sys.stderr.write(f"{reason}\n")
    signal.alarm(math.ceil(seconds) + 1)


def arrival(options: argparse.Namespace) -> dict[str, Any]:
    """Who this is: two processes that claim one rank are told apart by host and process id."""
    return {
        "rank": options.rank,
        "world_size": options.world_size,
        "host": socket.gethostname(),
        "pid": os.getppid(),
        "clock": clock_identity(),
    }


def clock_identity() -> str:
    """The same on every process that shares one kernel, and so one clock."""
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text(encoding="utf-8").strip()
    except OSError:
        return socket.gethostname()


def facts_of(file: Path) -> bytes:
    """The facts, once the process beside us has gathered them; it renames the complete file into place."""
    end = time.monotonic() + OWN_FACTS_SECONDS
    while not file.exists():
        if time.monotonic() > end:
            raise TimeoutError(f"this rank's own facts did not come within {OWN_FACTS_SECONDS:g} s")
        time.sleep(POLL_SECONDS)
    return file.read_bytes()


def listen(store: Store, own: int, options: argparse.Namespace) -> None:
    """Rank 0: wait for everybody or the deadline, compare clocks, write it all down, let the others go."""
    end = time.monotonic() + options.deadline
    arrivals = {}
    for number, who in arriving(store, options.world_size, end):
        arrivals[number] = who
        note_present(options.out, arrivals)
    arrivals.update(dict(latecomers(store, len(arrivals))))
    clocks: dict[str, int] = {arrivals[own]["clock"]: own} if own in arrivals else {}
    with options.out.open("w", encoding="utf-8") as file:
        for number, who in arrivals.items():
            known = clocks.setdefault(who["clock"], number) != number or number == own
            clock = None if known else compare_clocks(store, number)
            facts = get(store, f"facts/{number}", until=end) if store.check([f"facts/{number}"]) else None
            file.write(json.dumps({"arrival": who, "facts": facts and json.loads(facts), "clock": clock}) + "\n")
    for number in arrivals:
        store.set(f"turn/{number}", "leave")
    wait_for(store, "left", len(arrivals) - 1, seconds=LEAVE_SECONDS)


def note_present(out: Path, arrivals: dict[int, dict[str, Any]]) -> None:
    """Tell the process beside us which ranks have come; it says for whom it waits."""
    unfinished = out.with_name("present.unfinished")
    unfinished.write_text(json.dumps(sorted({who["rank"] for who in arrivals.values()})), encoding="utf-8")
    unfinished.replace(out.with_name("present.json"))


def arriving(store: Store, world_size: int, end: float) -> Iterator[tuple[int, dict[str, Any]]]:
    """Each arrival with its facts delivered, until all ranks are there; at the deadline those without facts too."""
    present: set[int] = set()
    number = 0
    while not present.issuperset(range(world_size)):
        number += 1
        try:
            store.set_timeout(timedelta(seconds=max(0.01, end - time.monotonic())))
            who = json.loads(store.get(f"arrival/{number}"))
            present.add(who["rank"])
            yield number, who
            store.wait([f"facts/{number}"], timedelta(seconds=max(0.01, end - time.monotonic())))
        except DistError:
            return


def latecomers(store: Store, known: int) -> Iterator[tuple[int, dict[str, Any]]]:
    """Who came beyond those that were waited for: a rank claimed twice, or one outside the world."""
    for number in range(known + 1, store.add("arrivals", 0) + 1):
        if store.check([f"arrival/{number}"]):
            yield number, json.loads(store.get(f"arrival/{number}"))


def compare_clocks(store: Store, number: int) -> dict[str, float] | None:
    """How far the other's clock is ahead of ours, from the quickest of a few round trips."""
    store.set_timeout(timedelta(seconds=CLOCK_SECONDS))
    store.set(f"turn/{number}", "clock")
    try:
        for ping in range(PINGS):
            store.get(f"ping/{number}/{ping}")
            store.set(f"pong/{number}/{ping}", repr(time.time()))
        measured: dict[str, float] = json.loads(store.get(f"clock/{number}"))
    except DistError:
        return None
    return measured


def answer(store: Store, number: int, patience_seconds: float) -> None:
    """Every other rank: wait for its turn to compare clocks, then to leave."""
    store.set_timeout(timedelta(seconds=patience_seconds))
    if store.get(f"turn/{number}") == b"clock":
        trips = []
        for ping in range(PINGS):
            sent = time.time()
            store.set(f"ping/{number}/{ping}", "")
            theirs = float(store.get(f"pong/{number}/{ping}"))
            back = time.time()
            trips.append((back - sent, (sent + back) / 2 - theirs))
        took, ahead = min(trips)
        store.set(f"clock/{number}", json.dumps({"ahead_seconds": ahead, "error_seconds": took / 2}))
        while store.get(f"turn/{number}") != b"leave":
            time.sleep(POLL_SECONDS)
    store.add("left", 1)


if __name__ == "__main__":
    sys.exit(main())
