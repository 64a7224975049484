"""What it costs node 0 of `net` to wait for many nodes, to set their rounds and to gather what they found.

    python -m tests.bench net             # 64 and 256 nodes; NODES="512" for others

Node 0 is a process with the real store and the real `lead`. The other nodes are threads that speak the real protocol, each with
two connections of its own, in two processes. What they say of a link is invented: links are not what is measured. The last
node comes `LATE_SECONDS` after the others, which wait for it.
"""

from __future__ import annotations

import contextlib
import json
import os
import resource
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Any

from ddpdoctor.evidence.links import NodeLink
from ddpdoctor.net import protocol
from ddpdoctor.net.introductions import Introduction
from ddpdoctor.net.keys import Keys
from ddpdoctor.net.store_mailbox import Messages
from tests.free_port import free_port

MOST_PROCESSES = 2
LATE_SECONDS = 5.0
DEADLINE = 300.0
LIMIT_SECONDS = 30.0  # of processor time of node 0


def main() -> int:
    """Measure and print; 1 where a number of nodes is over the limit, or a node is missing."""
    return max([measured(int(nodes)) for nodes in os.environ.get("NODES", "64 256").split()])


def measured(nodes: int) -> int:
    """Print one line for `nodes` nodes."""
    port = free_port()
    shares = [[*range(1, nodes)][start::MOST_PROCESSES] for start in range(MOST_PROCESSES)]
    with contextlib.ExitStack() as stack:
        first = stack.enter_context(started(nodes, port, [0]))
        others = [stack.enter_context(started(nodes, port, share)) for share in shares if share]
        said = json.loads(first.communicate(timeout=2 * DEADLINE)[0])
        of_others = sum(json.loads(other.communicate(timeout=DEADLINE)[0])["processor"] for other in others)
    bad = bool(said["missing"]) or said["processor"] > LIMIT_SECONDS
    print(
        f"net: {nodes:5} nodes: {said['seconds']:.1f} s, {said['rounds']} rounds; processor "
        f"{said['processor']:.1f} s of node 0 (limit {LIMIT_SECONDS:g}) and {of_others:.1f} s of all others; "
        f"{said['missing']} nodes missing",
        flush=True,
    )
    return int(bad)


def started(nodes: int, port: int, share: list[int]) -> subprocess.Popen[str]:
    """A process that plays these nodes."""
    command = [sys.executable, "-m", "tests.bench.net", str(nodes), str(port), json.dumps(share)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)


@dataclass(frozen=True, slots=True)
class Played:
    """The nodes of one process."""

    nodes: int
    port: int

    def messages(self) -> Messages:
        """A connection of one's own."""
        from torch.distributed import TCPStore

        return Messages(TCPStore("127.0.0.1", self.port, None, False, timedelta(seconds=DEADLINE)), "bench")

    def play(self, node: int) -> dict[str, Any]:
        """One node's part; what it has to say at the end."""
        if node and node == self.nodes - 1:
            time.sleep(LATE_SECONDS)
        messages, keys, stop = self.messages(), Keys(node, self.nodes), threading.Event()
        me = Introduction(
            node=node,
            nodes=self.nodes,
            pid=os.getpid(),
            host=f"node{node}",
            address="127.0.0.1",
            port=1024 + node,
            public=keys.public,
            speed_mbit=None,
            facts={},
        )
        threading.Thread(
            target=replace(messages, store=self.messages().store).pulse, args=(node, stop), daemon=True
        ).start()
        protocol.introduce(messages, me)
        now = time.monotonic()
        if node:
            protocol.follow(messages, me, keys, until=now + DEADLINE)
            messages.count("left")
            return {}
        found = protocol.lead(
            messages, me, keys, expected=self.nodes, join_until=now + DEADLINE / 2, until=now + DEADLINE
        )
        end = time.monotonic() + DEADLINE / 10
        while messages.counted("left") < self.nodes - 1 and time.monotonic() < end:
            time.sleep(protocol.POLL_SECONDS)
        missing = self.nodes - len(found.nodes) + len(found.links.lost)
        return {"seconds": found.links.seconds, "rounds": found.links.rounds, "missing": missing}


def play(nodes: int, port: int, share: list[int]) -> None:
    """Play these nodes, and print what node 0 has to say, and the processor time."""
    from ddpdoctor.net.rendezvous_probe import host_store

    served = host_store(port) if 0 in share else None
    protocol.talk = lambda me, other, *_: NodeLink(
        source=me, target=other, outcome="ok", latency_seconds=1e-4, bytes_per_second=1e9
    )
    before = time.process_time()
    with ThreadPoolExecutor(len(share)) as pool:
        said = [*pool.map(Played(nodes, port).play, share)]
    print(json.dumps({**said[0], "processor": time.process_time() - before}), flush=True)
    del served


if __name__ == "__main__":
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    play(int(sys.argv[1]), int(sys.argv[2]), json.loads(sys.argv[3]))
