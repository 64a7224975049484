"""How fast the hosts of a job send to each other over gloo, in the rounds of disjoint pairs in which `ddpdoctor net` measures."""

from __future__ import annotations

import time
from collections.abc import Sequence

import torch
import torch.distributed as dist
from control_group import gathered

from ddpdoctor.analysis.network.fault_localization import LinkFaults
from ddpdoctor.analysis.network.suspects import late, slow
from ddpdoctor.evidence.links import Links, Node, NodeLink
from ddpdoctor.net.link_test import ECHOES, fastest
from ddpdoctor.net.pair_schedule import Pair, Planner
from ddpdoctor.net.protocol import better, tell

FEWEST = 3  # hosts: two have no median
LOOKS = 3  # at most, the best of which counts: other programs that halt a stream go on for a second or two
PIECE_BYTES = 1 << 20
MOST_BYTES = 32 << 20


def host_links(hosts: Sequence[str], control: dist.ProcessGroup) -> Links | None:
    """Every direction between the hosts in `hosts`, one per rank, by their first ranks; empty names are left out.

    None with too few of them.
    """
    members = {host: [rank for rank, name in enumerate(hosts) if name == host] for host in hosts if host}
    if len(members) < FEWEST:
        return None
    start, first = time.perf_counter(), [ranks[0] for ranks in members.values()]
    nodes = tuple(Node(node=n, host=host, address="", ranks=tuple(members[host])) for n, host in enumerate(members))
    found: dict[Pair, NodeLink] = {}
    rounds = 0
    for _ in range(LOOKS):
        rounds += _look(first, found, control)
        links = Links(
            expected=len(nodes),
            nodes=nodes,
            links=tuple(found[direction] for direction in sorted(found)),
            rounds=rounds,
            seconds=time.perf_counter() - start,
        )
        if slow(links) == late(links) == LinkFaults():
            break
    return links


def _look(ranks: Sequence[int], found: dict[Pair, NodeLink], control: dist.ProcessGroup) -> int:
    """Measure all pairs of hosts, whose first ranks these are, and keep the better figures in `found`. Returns the rounds."""
    planner = Planner(range(len(ranks)))
    while pairs := planner.next_round():
        mine = [pair for pair in pairs if dist.get_rank() in {ranks[end] for end in pair}]
        heard = [_sent(pair, ranks, control) for one in mine for pair in (one, one[::-1])]
        for link in (link for said in gathered(heard, control) for link in said if link is not None):
            direction = link.source, link.target
            found[direction] = better(found.get(direction), link)
        tell(planner, found, pairs)
    return planner.rounds


def _sent(pair: Pair, ranks: Sequence[int], control: dist.ProcessGroup) -> NodeLink | None:
    """One direction, measured by the host that sends; the other one only answers."""
    source, target = (ranks[end] for end in pair)
    word, piece = torch.zeros(8, dtype=torch.int64), torch.zeros(PIECE_BYTES, dtype=torch.uint8)
    if dist.get_rank() == target:
        _answer(source, word, piece, control)
        return None

    def trip() -> float:
        start = time.perf_counter()
        dist.send(word, target, group=control)
        dist.recv(word, target, group=control)
        return time.perf_counter() - start

    def stream(size: int) -> float:
        start = time.perf_counter()
        dist.send(torch.full((8,), size // PIECE_BYTES), target, group=control)
        for _ in range(size // PIECE_BYTES):
            dist.send(piece, target, group=control)
        dist.recv(word, target, group=control)
        return time.perf_counter() - start

    latency = min(trip() for _ in range(ECHOES)) / 2
    speed = fastest(stream, most=MOST_BYTES)
    dist.send(torch.zeros(8, dtype=torch.int64), target, group=control)
    return NodeLink(source=pair[0], target=pair[1], outcome="ok", latency_seconds=latency, bytes_per_second=speed)


def _answer(source: int, word: torch.Tensor, piece: torch.Tensor, control: dist.ProcessGroup) -> None:
    for _ in range(ECHOES):
        dist.recv(word, source, group=control)
        dist.send(word, source, group=control)
    while True:
        dist.recv(word, source, group=control)
        if not int(word[0]):
            return
        for _ in range(int(word[0])):
            dist.recv(piece, source, group=control)
        dist.send(word, source, group=control)
