"""Tells the exit code of rank 0 to one rank of every other node, over the store of the launch; they print it."""

from __future__ import annotations

import contextlib
import os
import sys
import time
from datetime import timedelta

from meeting_options import first_line, meeting_options
from torch.distributed import DistError, PrefixStore, Store, TCPStore  # type: ignore[attr-defined] # public all the same

LEAVE_SECONDS = 10.0
POLL_SECONDS = 0.05


def main() -> int:
    """Returns 0, or 3 where rank 0 said nothing."""
    parser = meeting_options(__doc__)
    parser.add_argument("--nodes", type=int, required=True)
    parser.add_argument("--code", required=True, help="of this rank; rank 0's is told")
    options = parser.parse_args()
    timeout = timedelta(seconds=options.deadline)
    serves = options.rank == 0 and not options.hosted
    try:
        store: Store = TCPStore(options.host, options.port, None, serves, timeout, wait_for_workers=False)
        store = PrefixStore(f"ddpdoctor/exit/{os.environ.get('TORCHELASTIC_RESTART_COUNT', '0')}", store)
        if options.rank == 0:
            store.set("code", options.code)
            heard(store, options.nodes - 1)
        else:
            print(store.get("code").decode())
            store.add("heard", 1)
    except DistError as error:
        sys.stderr.write(f"{first_line(error)}\n")
        return 3
    return 0


def heard(store: Store, others: int) -> None:
    """Wait until they know: the store may end with the agent of a rank that failed."""
    end = time.monotonic() + LEAVE_SECONDS
    with contextlib.suppress(DistError):  # it has ended already
        while store.add("heard", 0) < others and time.monotonic() < end:
            time.sleep(POLL_SECONDS)


if __name__ == "__main__":
    sys.exit(main())
