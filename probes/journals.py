"""Brings the files that each rank wrote to rank 0, over the rendezvous store alone, after the job has ended.

The job may have served the store itself, on the same port: then rank 0 serves another now. A rank delivers only when rank
0 says that it listens, and starts again where the store goes away. Rank 0 lets the others leave when its caller has
reported: a launcher ends every rank as soon as one of them leaves with an error.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import sys
import time
import zlib
from datetime import timedelta
from pathlib import Path

from meeting_options import first_line, meeting_options
from torch.distributed import DistError, PrefixStore, Store, TCPStore  # type: ignore[attr-defined] # public all the same

PIECE_BYTES = 4 << 20  # a store takes 8 MiB at a time
MOST_BYTES = 1 << 30  # of one file, unpacked
TURN_SECONDS = 5.0
POLL_SECONDS = 0.05
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
    store = meet(options, serve=not options.hosted)
    store.set(LISTENING, "")
    for rank in range(1, options.world_size):
        store.set_timeout(timedelta(seconds=max(0.01, end - time.monotonic())))
        with contextlib.suppress(DistError):
            fetch(store, rank, options.folder)
    options.gathered.touch()
    while not options.reported.exists() and time.monotonic() < end + TURN_SECONDS:
        time.sleep(POLL_SECONDS)
    store.set(LEAVE, "")
    gone = time.monotonic() + TURN_SECONDS
    while store.add("left", 0) < options.world_size - 1 and time.monotonic() < gone:
        time.sleep(POLL_SECONDS)


def deliver(options: argparse.Namespace, end: float) -> None:
    """Every other rank: hand in one's files as soon as rank 0 listens, and stay until it has reported.

    The deadline counts while nobody serves the store: rank 0's part of the job may take longer than ours.
    """
    handed_in = False
    while not handed_in:
        try:
            store = meet(options, serve=False)
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
    timeout = timedelta(seconds=TURN_SECONDS)
    store = TCPStore(options.host, options.port, None, serve, timeout, wait_for_workers=False)
    return PrefixStore(f"ddpdoctor/sync/{os.environ.get('TORCHELASTIC_RESTART_COUNT', '0')}", store)


def hand_in(store: Store, rank: int, folder: Path) -> None:
    """Put the files of `folder` into the store in pieces; the list of them comes last, when all of it is there."""
    listed: list[str] = []
    for file in sorted(path for path in folder.iterdir() if path.is_file()):
        packed = zlib.compress(file.read_bytes())
        pieces = [packed[start : start + PIECE_BYTES] for start in range(0, len(packed), PIECE_BYTES)]
        for number, piece in enumerate(pieces):
            store.set(f"{rank}/{len(listed)}/{number}", piece)  # type: ignore[arg-type] # it takes bytes as well
        listed.append(f"{len(pieces)} {file.name}")
    store.set(f"{rank}", "\n".join(listed))


def fetch(store: Store, rank: int, folder: Path) -> None:
    """Write down the files that `rank` handed in, each under its own name behind the rank's number."""
    for number, line in enumerate(store.get(f"{rank}").decode().splitlines()):
        count, _, name = line.partition(" ")
        packed = b"".join(store.get(f"{rank}/{number}/{piece}") for piece in range(int(count)))
        (folder / f"{rank}-{Path(name).name}").write_bytes(zlib.decompressobj().decompress(packed, MOST_BYTES))


if __name__ == "__main__":
    sys.exit(main())
