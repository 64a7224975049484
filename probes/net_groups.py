"""One node's part in the groups of `ddpdoctor net`: gloo with one neighbour, with the other one, then with all nodes.

Each group sums a vector and checks it. All nodes go from round to round together. The first JSON line says that this node
is ready, then one line per group; what hangs is ended with this process.
"""

from __future__ import annotations

import argparse
import json
import time
from datetime import timedelta

import torch
import torch.distributed as dist
from torch._C._distributed_c10d import PrefixStore, Store, TCPStore

from ddpdoctor.net.pair_schedule import neighbours

ELEMENTS = 1 << 16  # 256 KiB: above any MTU, and more than a socket's first window
GROUP_SECONDS = 10.0  # to meet and to sum; gloo needs milliseconds
READY_SECONDS = 40.0  # what importing torch may take longer on another node


def main() -> int:
    """Try each group in turn; 0 where all of them worked."""
    options = _options()
    members = tuple(sorted(options.members))
    store = PrefixStore(
        options.prefix, TCPStore(options.addr, options.port, is_master=False, timeout=timedelta(seconds=GROUP_SECONDS))
    )  # fmt: skip
    print(json.dumps({"ready": True}), flush=True)
    for number, together in enumerate([*neighbours(members), [members]]):
        if not _all_are_here(store, number, len(members)):
            return 1
        if together == [members] and store.check(["failed"]):
            return 1  # what fails between two says nothing new among all
        group = next((each for each in together if options.node in each), None)
        if group is not None:
            start = time.monotonic()
            detail = _try(PrefixStore("-".join(map(str, group)), store), options.node, group)
            print(json.dumps({"nodes": group, "detail": detail, "seconds": time.monotonic() - start}), flush=True)
            if detail:
                store.set("failed", "")
    return 0


def _all_are_here(store: Store, number: int, expected: int) -> bool:
    end = time.monotonic() + READY_SECONDS
    store.add(f"round/{number}", 1)
    while store.add(f"round/{number}", 0) < expected:
        if time.monotonic() > end:
            return False
        time.sleep(0.02)
    return True


def _try(store: Store, node: int, group: tuple[int, ...]) -> str:
    """What went wrong in one group, or nothing."""
    place = group.index(node)
    try:
        dist.init_process_group(
            "gloo", store=store, rank=place, world_size=len(group), timeout=timedelta(seconds=GROUP_SECONDS)
        )
        values = torch.full((ELEMENTS,), float(place + 1))
        dist.all_reduce(values)
        expected = len(group) * (len(group) + 1) / 2
        return "" if bool((values == expected).all()) else f"a sum of {values.max():g} instead of {expected:g}"
    except RuntimeError as error:
        return str(error).strip().splitlines()[0][:200] or type(error).__name__
    finally:
        if dist.is_initialized():
            dist.destroy_process_group()


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--node", type=int, required=True)
    parser.add_argument("--members", type=int, nargs="+", required=True)
    parser.add_argument("--addr", required=True)
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--prefix", required=True)
    return parser.parse_args()


if __name__ == "__main__":
    raise SystemExit(main())
