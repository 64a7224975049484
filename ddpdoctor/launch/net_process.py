"""Run one node's part of `ddpdoctor net` in a process of its own, under a deadline."""

from __future__ import annotations

import contextlib
import random
import socket
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import msgspec

from ddpdoctor.errors import UndecidedError
from ddpdoctor.evidence import Evidence, Missing, RankFacts, kinds
from ddpdoctor.evidence.launch import Launch
from ddpdoctor.launch.attendance import Attendance, WaitingProcess
from ddpdoctor.launch.guarded_process import ProgramEnd, run
from ddpdoctor.launch.private_directory import private_directory
from ddpdoctor.launch.ranks import our_file, require_torch
from ddpdoctor.launch.rendezvous import FIRST_PORT, PORTS, meeting_point

TRIED_PORTS = 100
JOIN_SHARE = 0.5  # of the deadline: the other half is for the rounds
GRACE_SECONDS = 40.0  # for torch's import, which takes half a minute from a cold network file system, and for leaving


@dataclass(frozen=True, slots=True, kw_only=True)
class NodePlace:
    """This process's node in the job, and where the rendezvous of the job is."""

    node: int
    """The node's number."""
    nodes: int
    """The number of nodes."""
    master_addr: str
    """The address of the rendezvous."""
    master_port: int
    """The TCP port of the rendezvous."""
    store_is_there: bool
    """Whether the launcher serves a store there."""
    run: str
    """What the processes of this launch have in common."""
    works: bool = True
    """False on a second rank of a node."""
    by_hand: bool = False
    """Whether somebody started this node, and sees what it prints."""

    @property
    def speaks(self) -> bool:
        """Whether it says what it waits for."""
        return self.node == 0 or self.by_hand


def place_of(environ: Mapping[str, str], launch: Launch) -> NodePlace:
    """The node that a launched process stands for: one rank of each node works, the others have nothing to do.

    Raises:
        UndecidedError: nothing says where rank 0 is.
    """
    point = meeting_point(environ, launch)
    local = launch.local_world_size or 1
    agents = launch.agents if launch.launcher == "torchrun" else None
    return NodePlace(
        node=launch.node_rank if agents and launch.node_rank is not None else launch.rank // local,
        nodes=agents or -(-launch.world_size // local),
        master_addr=point.host,
        master_port=point.port,
        store_is_there=point.hosted,
        run=launch.run_id or "0",
        works=local == 1 or launch.local_rank in {None, 0},
        by_hand=launch.by_hand,
    )


def free_port() -> int:
    """A port that nobody listens on at this moment, below the range from which outgoing connections take theirs.

    Raises:
        UndecidedError: a hundred ports in a row are taken.
    """
    for port in random.sample(range(FIRST_PORT, FIRST_PORT + PORTS), TRIED_PORTS):
        with contextlib.suppress(OSError), socket.create_server(("", port)):
            return port
    raise UndecidedError(f"none of {TRIED_PORTS} ports from {FIRST_PORT} on is free on this host")


def run_node(place: NodePlace, *, deadline_seconds: float, on_wait: Callable[[WaitingProcess], None]) -> Evidence:
    """What this node found; on node 0 what all nodes found, each with its own facts.

    `on_wait` is called once a second until the nodes have met.

    Raises:
        UsageError: there is no torch.
    """
    require_torch()
    command = [
        sys.executable, str(our_file("probes", "net_node.py")),
        "--node", str(place.node), "--nodes", str(place.nodes),
        "--master-addr", place.master_addr, "--master-port", str(place.master_port),
        "--run", place.run, "--deadline", str(deadline_seconds),
        *(["--store-is-there"] if place.store_is_there else []),
    ]  # fmt: skip
    env = {"MASTER_ADDR": place.master_addr, "MASTER_PORT": str(place.master_port)}
    with private_directory() as folder:
        poll = None
        if place.nodes > 1:
            attendance = Attendance(folder.path / "attendance.json", _waiting(place), on_wait)
            env |= attendance.environment
            poll = attendance.poll
        ended = run(command, deadline_seconds=deadline_seconds + GRACE_SECONDS, env=env, folder=folder, poll=poll)
    return _evidence(place, ended.answers, ended)


def _waiting(place: NodePlace) -> WaitingProcess:
    where = f"{place.master_addr}:{place.master_port}"
    return WaitingProcess(number=place.node, size=place.nodes, where=where, speaks=place.speaks, noun="node")


def _evidence(place: NodePlace, result: dict[str, Any], ended: ProgramEnd) -> Evidence:
    known = kinds()
    of_job = ("Links", "RankSet", "Groups", "NcclTries")
    own = {name: value for name, value in result.items() if name in known and name not in of_job}
    by_node = {node["node"]: (node["host"], node["facts"]) for node in result.get("nodes", ())}
    host, facts = by_node.get(place.node, (own.get("Network", {}).get("hostname", "this host"), {}))
    by_node[place.node] = (host, {**facts, **own})
    ranks = tuple(
        RankFacts(
            rank=node,
            host=host,
            facts=tuple(msgspec.convert(value, known[name], str_keys=True) for name, value in facts.items()),
        )
        for node, (host, facts) in sorted(by_node.items())
    )
    job: tuple[Any, ...] = tuple(
        msgspec.convert(result[name], known[name], str_keys=True) for name in of_job if name in result
    )
    undecided = _undecided(place, result, ended)
    missing = () if job else (Missing(kind="Links", reason="only node 0 collects them, once the nodes have joined"),)
    return Evidence(
        job=job,
        ranks=ranks,
        undecided=(*undecided, *result.get("left_out", ())),
        missing=missing,
        notes=tuple(
            f"node {node} refused a connection: {who}"
            for node, refused in result.get("strangers", {}).items()
            for who in refused
        ),
        launched=place.nodes > 1,
    )


def _undecided(place: NodePlace, result: dict[str, Any], ended: ProgramEnd) -> tuple[str, ...]:
    """Why there is no verdict on the job: nodes that never came, or a node 0 that did not get to the end."""
    if "Links" in result:
        links = result["Links"]
        absent = place.nodes - len(links["nodes"])
        late = (
            ()
            if links["complete"]
            else (f"the deadline passed in round {links['rounds']}, before every pair was tested",)
        )
        return (*([f"{absent} of {place.nodes} nodes did not join"] if absent else []), *late)
    if place.node == 0 and result.get("MasterProbe", {}).get("outcome") == "joined":
        why = "the deadline passed" if ended.timed_out else f"its process ended with code {ended.code}"
        return (f"the links could not be measured: {why}; {ended.last_words or 'it gave no reason'}",)
    if place.node > 0 and result.get("MasterProbe", {}).get("outcome") == "joined" and ended.code != 0:
        return ("this node did not receive the result: it joined too late, or lost the connection to node 0",)
    return ()
