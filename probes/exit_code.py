"""Tells the exit code of rank 0 to one rank of every other node, over the store of the launch; they print it."""

from __future__ import annotations

import sys

from rendezvous_args import first_line, meeting_options
from torch.distributed import DistError

from ddpdoctor.transport.store import next_run, open_store, own_part, wait_for

LEAVE_SECONDS = 10.0


def main() -> int:
    """Returns 0, or 3 where rank 0 said nothing."""
    parser = meeting_options(__doc__)
    parser.add_argument("--nodes", type=int, required=True)
    parser.add_argument("--code", required=True, help="of this rank; rank 0's is told")
    options = parser.parse_args()
    serves = options.rank == 0 and not options.hosted
    try:
        whole = open_store(options.host, options.port, serve=serves, timeout_seconds=options.deadline)
        store = own_part(whole, "exit")
        if options.rank == 0:
            store.set("code", options.code)
            # the store may end with a failed rank's agent
            wait_for(store, "heard", options.nodes - 1, seconds=LEAVE_SECONDS)
            next_run(whole, "exit")
        else:
            print(store.get("code").decode())
            store.add("heard", 1)
    except DistError as error:
        sys.stderr.write(f"{first_line(error)}\n")
        return 3
    return 0


if __name__ == "__main__":
    sys.exit(main())
