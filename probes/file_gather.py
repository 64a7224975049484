"""Brings the files that each rank wrote to rank 0, over the rendezvous store alone, after the job has ended.

The job may have served the store itself, on the same port: then rank 0 serves another now. A rank delivers only when rank
0 says that it listens, and starts again where the store goes away. Rank 0 lets the others leave when its caller has
reported: a launcher ends every rank as soon as one of them leaves with an error.
"""

from __future__ import annotations

import argparse
import contextlib
import sys
import time
from datetime import timedelta
from pathlib import Path

from rendezvous_args import first_line, meeting_options
from torch.distributed import DistError, Store  # type: ignore[attr-defined] # public all the same

from ddpdoctor.transport.store import get, next_run, open_store, own_part, put, wait_for

TURN_SECONDS = 5.0
MOST_FILES = 4096  # of one rank: each of its processes writes a few
POLL_SECONDS = 0.05
PURPOSE = "sync"
LISTENING, LEAVE = "listening", "leave"


def main() -> int:
    """Returns 0, or 3 with the reason as the last line of stderr where the ranks could not meet."""
    parser = meeting_options(__doc__)
    parser.add_argument(
        "--folder", type=Path, required=True, help="this rank's files; rank 0 gets the others' beside them"
    )
    parser.add_argument("--gathered", type=Path, required=True, help="rank 0 creates this file when it has them all")
    parser.add_argument(
        "--reported", type=Path, required=True, help="rank 0 waits for this file, and lets the others leave"
    )
    options = parser.parse_args()
    end = time.monotonic() + options.deadline
    try:
        if options.rank == 0:
            receive(options, end)
        else:
            deliver(options, end)
    except DistError as error:
        sys.stderr.write(f"{first_line(error)}\n")
        return 3
    return 0


def receive(options: argparse.Namespace, end: float) -> None:
    """Rank 0: take every rank's files until all are there or the deadline has passed; then let the others leave."""
    whole = meet(options, serve=not options.hosted)
    store = own_part(whole, PURPOSE)
    store.set(LISTENING, "")
    for rank in range(1, options.world_size):
        store.set_timeout(timedelta(seconds=max(0.01, end - time.monotonic())))
        with contextlib.suppress(DistError, OSError, ValueError):  # what it sent is no file of ours
            fetch(store, rank, options.folder, end)
    options.gathered.touch()
    while not options.reported.exists() and time.monotonic() < end + TURN_SECONDS:
        time.sleep(POLL_SECONDS)
    store.set(LEAVE, "")
    wait_for(store, "left", options.world_size - 1, seconds=TURN_SECONDS)
    next_run(whole, PURPOSE)


def deliver(options: argparse.Namespace, end: float) -> None:
    """Every other rank: hand in one's files as soon as rank 0 listens, and stay until it has reported.

    The deadline counts while nobody serves the store: rank 0's part of the job may take longer than ours.
    """
    handed_in = False
    while not handed_in:
        try:
            store = own_part(meet(options, serve=False), PURPOSE)
            end = time.monotonic() + options.deadline
            store.wait([LISTENING])
            hand_in(store, options.rank, options.folder)
            handed_in = True
        except DistError:  # noqa: PERF203 - rank 0 does not listen yet, or the job's own store has ended with it
            if time.monotonic() > end:
                raise
            time.sleep(POLL_SECONDS)
    store.set_timeout(timedelta(seconds=options.deadline))
    with contextlib.suppress(DistError):  # rank 0 has all it needs
        store.wait([LEAVE])
        store.add("left", 1)


def meet(options: argparse.Namespace, *, serve: bool) -> Store:
    """The store that all ranks of this attempt share."""
    return open_store(options.host, options.port, serve=serve, timeout_seconds=TURN_SECONDS)


def hand_in(store: Store, rank: int, folder: Path) -> None:
    """Put the files of `folder` into the store; the list of them comes last, when all of them are there."""
    files = sorted(path for path in folder.iterdir() if path.is_file())
    for number, file in enumerate(files):
        put(store, f"{rank}/{number}", file.read_bytes())
    store.set(f"{rank}", "\n".join(file.name for file in files))


def fetch(store: Store, rank: int, folder: Path, end: float) -> None:
    """Write down the files that `rank` handed in, each under its own name behind the rank's number."""
    for number, name in enumerate(store.get(f"{rank}").decode().splitlines()[:MOST_FILES]):
        data = get(store, f"{rank}/{number}", until=end)
        if data is not None:
            (folder / f"{rank}-{Path(name).name}").write_bytes(data)


if __name__ == "__main__":
    sys.exit(main())
